//! What the fuzz targets share.
