//! The world's LINE OA, with a user in an audience and a rule that resumes the world's workflow.

use serde_json::json;
use trigger_manager::app::{CreateAudience, CreateLineOa, CreateTriggerRule, CreateWorkflow};
use trigger_manager::domain::rule::Frequency;

use super::Served;

/// The user that the LINE OA knows.
pub const LINE_USER: &str = "U00000000000000000000000000000001";

impl Served {
    pub(super) async fn line(&mut self) {
        let (app, caller) = (self.test.app.clone(), self.test.caller.clone());
        let (secret, token) = ("secret-of-the-channel", "token-of-the-channel+/=");
        self.secrets.extend([secret.to_owned(), token.to_owned()]);
        let new = CreateLineOa {
            project_id: self.test.application.project_id,
            name: "Shop".into(),
            channel_id: "1234567890".into(),
            channel_secret: secret.into(),
            channel_access_token: token.into(),
        };
        let line_oa = app.create_line_oa(&caller, new).await.unwrap();
        self.ids.insert("lineOa", line_oa.id.to_string());
        let (name, description) = (String::from("Regulars"), String::new());
        let new = CreateAudience {
            line_oa_id: line_oa.id,
            name: name.clone(),
            description: description.clone(),
        };
        let audience = app.create_audience(&caller, new).await.unwrap();
        self.ids.insert("audience", audience.id.to_string());
        let users = [LINE_USER.to_owned()];
        app.add_audience_members(&caller, audience.id, &users).await.unwrap();
        let application_id = self.test.application.id;
        let new = CreateWorkflow { application_id, name, description };
        let workflow = app.create_workflow(&caller, new).await.unwrap();
        self.ids.insert("workflow", workflow.id.to_string());
        let new = CreateTriggerRule {
            line_oa_id: line_oa.id,
            name: "Resume".into(),
            description: String::new(),
            source_type: "form_submitted".into(),
            source_config: json!({ "formId": "f" }),
            action_type: "resume_workflow".into(),
            action_config: json!({}),
            enabled: true,
            frequency: Frequency::OncePerDay,
            cooldown_seconds: 0,
            workflow_id: Some(workflow.id),
            workflow_node_path: Some("start/1".into()),
        };
        let rule = app.create_trigger_rule(&caller, new).await.unwrap();
        self.ids.insert("triggerRule", rule.id.to_string());
    }
}
