//! The schema and the edge, over a database of their own.
