//! What the server answers over HTTP.

pub mod console;
pub mod machine;
pub mod openapi;
