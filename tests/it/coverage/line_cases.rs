//! Cases of LINE OAs, their users, audiences and rules, and of workflows.

use serde_json::json;

use super::case::Case;
use super::cases::{change, id, input};
use crate::served::LINE_USER;

const ANOTHER_USER: &str = "U00000000000000000000000000000002";

pub fn cases() -> Vec<Case> {
    [line_oas(), audiences(), workflows(), rules(), deletes()].into_iter().flatten().collect()
}

fn line_oas() -> Vec<Case> {
    let line_oa = json!({
        "projectId": "$project", "name": "New", "channelId": "99", "channelSecret": "s",
        "channelAccessToken": "t",
    });
    let renewed = json!({ "name": "Renamed", "channelAccessToken": "another" });
    let attributes = json!({
        "lineOaId": "$lineOa", "userId": LINE_USER, "attributes": { "plan": "gold" },
    });
    vec![
        Case::new("createLineOa", "line_oa.create", input(line_oa)).of_project("$project"),
        Case::new("updateLineOa", "line_oa.update", change("$lineOa", renewed))
            .of_people("$lineOa"),
        // Users have no id of ours: the row bears the account's.
        Case::new("setLineUserAttributes", "line_user.set_attributes", input(attributes))
            .answers("{ lineOa { id } }", "/lineOa/id")
            .of_people("$lineOa"),
    ]
}

fn audiences() -> Vec<Case> {
    let audience = json!({ "lineOaId": "$lineOa", "name": "New", "description": "For a test" });
    let renamed = json!({ "name": "Renamed" });
    let members = json!({ "audienceId": "$audience", "userIds": [ANOTHER_USER] });
    vec![
        Case::new("createAudience", "audience.create", input(audience)).of_people("$lineOa"),
        Case::new("updateAudience", "audience.update", change("$audience", renamed))
            .of_people("$audience"),
        Case::new("addAudienceMembers", "audience.add_members", input(members.clone()))
            .answers("{ audience { id } added }", "/audience/id")
            .states(false, true)
            .of_people("$audience"),
        Case::new("removeAudienceMembers", "audience.remove_members", input(members))
            .answers("{ audience { id } removed }", "/audience/id")
            .states(false, true)
            .of_people("$audience"),
    ]
}

fn workflows() -> Vec<Case> {
    let workflow = json!({ "applicationId": "$application", "name": "New", "description": "d" });
    let renamed = json!({ "name": "Renamed" });
    vec![
        Case::new("createWorkflow", "workflow.create", input(workflow)).inside("$application"),
        Case::new("updateWorkflow", "workflow.update", change("$workflow", renamed))
            .inside("$workflow"),
    ]
}

fn rules() -> Vec<Case> {
    let rule = json!({
        "lineOaId": "$lineOa", "name": "New", "sourceType": "form_submitted",
        "actionType": "add_to_audience", "actionConfig": { "audienceId": "$audience" },
    });
    let changed = json!({ "name": "Renamed", "enabled": false });
    vec![
        Case::new("createTriggerRule", "trigger_rule.create", input(rule)).of_people("$lineOa"),
        Case::new("updateTriggerRule", "trigger_rule.update", change("$triggerRule", changed))
            .of_people("$triggerRule"),
    ]
}

fn deletes() -> Vec<Case> {
    vec![
        Case::new("deleteTriggerRule", "trigger_rule.delete", id("$triggerRule"))
            .of_people("$triggerRule"),
        Case::new("deleteWorkflow", "workflow.delete", id("$workflow")).inside("$workflow"),
        Case::new("deleteAudience", "audience.delete", id("$audience")).of_people("$audience"),
        Case::new("deleteLineOa", "line_oa.delete", id("$lineOa")).of_people("$lineOa"),
    ]
}
