//! The database schema: an ordered list of changes, one file each.
