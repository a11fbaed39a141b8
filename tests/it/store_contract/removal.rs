//! removal
