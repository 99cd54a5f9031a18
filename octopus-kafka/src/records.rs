//! Record batches as they lie in a fetch response.
