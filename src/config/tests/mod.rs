use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use secrecy::ExposeSecret;

use super::*;

mod joining;
mod line;
mod meaning;
mod redaction;

fn from_environment(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let owned: Vec<_> = variables.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    Config::load(None, owned.into_iter())
}

/// A file of its own for one test, gone when the test is over.
struct TestFile(PathBuf);

impl TestFile {
    fn new(text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pfy-{}.yml", uuid::Uuid::now_v7()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn from_file(text: &str) -> Result<Config, ConfigError> {
    let file = TestFile::new(text);
    Config::load(Some(&file.0), std::iter::empty())
}

/// The single problem of a configuration that must not load: its key and its reason.
fn only_problem(result: Result<Config, ConfigError>) -> (String, String) {
    only_problem_of(result.unwrap_err())
}

fn only_problem_of(error: ConfigError) -> (String, String) {
    assert_eq!(error.problems().len(), 1, "{error}");
    let Problem { key, reason, .. } = error.problems()[0].clone();
    (key, reason)
}
