//! `form_submitted`: a user sent a form in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Source;
use crate::domain::rule::label::{LABEL_MAX, Label};
use crate::domain::rule::misfit::{Misfit, cut, text};

/// Waits for a form, or for any.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FormSubmitted {
    /// The form; any if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    form_id: Option<Label>,
}

/// A form that was sent in.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Submission {
    /// The form.
    form_id: Label,
    /// What was sent in, as the sender counts it.
    #[serde(rename = "submissionId", default)]
    _submission_id: Option<Label>,
    /// The answers, by question.
    #[serde(rename = "answers", default)]
    _answers: Map<String, Value>,
}

impl Source for FormSubmitted {
    const TYPE: &'static str = "form_submitted";
    const DESCRIPTION: &'static str = "A user sent a form in.";
    type Payload = Submission;

    fn check(&self) -> Result<(), Misfit> {
        self.form_id.as_ref().map_or(Ok(()), |form| text("formId", &form.0, LABEL_MAX))
    }

    fn key(&self) -> String {
        self.form_id.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    fn keys(submission: &Submission) -> Vec<String> {
        vec![String::new(), submission.form_id.0.clone()]
    }

    fn matches(&self, submission: &Submission) -> Result<(), String> {
        match &self.form_id {
            Some(form) if *form != submission.form_id => {
                Err(format!("the form is {}, not {form}", cut(&submission.form_id.0, 50)))
            }
            _ => Ok(()),
        }
    }
}
