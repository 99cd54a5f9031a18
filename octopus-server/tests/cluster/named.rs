//! Single cases on the cluster.
