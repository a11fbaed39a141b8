//! A case for each mutation, in the order in which they are made: deletes come last.

use serde_json::{Value, json};

use super::case::Case;
use crate::served::{PASSWORD, Role};

pub fn cases() -> Vec<Case> {
    let (actions, line) = (super::action_cases::cases(), super::line_cases::cases());
    let groups = [sessions(), people(), things(), triggers(), actions, line, deletes()];
    groups.into_iter().flatten().collect()
}

fn sessions() -> Vec<Case> {
    let new_token = "{ token personalAccessToken { id } }";
    vec![
        // Whoever signs in has no credentials yet: the refused case is a wrong password.
        Case::new(
            "signIn",
            "user.sign_in",
            json!({ "email": "owner@example.com", "password": PASSWORD }),
        )
        .answers("{ user { id } }", "/user/id")
        .users(Role::Owner)
        .forbids(&[])
        .states(false, true),
        Case::new(
            "createPersonalAccessToken",
            "personal_access_token.create",
            json!({ "name": "t" }),
        )
        .users(Role::Member)
        .answers(new_token, "/personalAccessToken/id"),
        Case::new(
            "deletePersonalAccessToken",
            "personal_access_token.delete",
            json!({ "id": "$spareToken" }),
        )
        .users(Role::Owner)
        .hides("$spareToken", &[Role::Outsider, Role::Member, Role::Administrator]),
        Case::new(
            "changePassword",
            "user.change_password",
            json!({ "currentPassword": PASSWORD, "newPassword": "another long password" }),
        )
        .users(Role::Owner),
    ]
}

fn people() -> Vec<Case> {
    let member = json!({ "projectId": "$project", "userId": "$newcomer", "role": "MEMBER" });
    let user = json!({ "email": "made@example.com", "name": "Made", "password": PASSWORD });
    let changed = json!({ "name": "Changed", "password": "another long password" });
    vec![
        Case::new("createUser", "user.create", input(user)).administrators(),
        Case::new("updateUser", "user.update", change("$leaver", changed)).administrators(),
        Case::new(
            "createProject",
            "project.create",
            input(json!({ "slug": "new", "name": "New" })),
        )
        .users(Role::Outsider),
        Case::new(
            "updateProject",
            "project.update",
            change("$project", json!({ "name": "Renamed" })),
        )
        .forbids(&[Role::Member])
        .of_project("$project"),
        Case::new("addProjectMember", "project_member.create", input(member))
            .owners()
            .of_project("$project"),
        Case::new(
            "updateProjectMember",
            "project_member.update",
            change("$membership", json!({ "role": "MAINTAINER" })),
        )
        .owners()
        .inside("$membership"),
    ]
}

fn things() -> Vec<Case> {
    let application = json!({ "projectId": "$project", "slug": "new", "name": "New" });
    let (slug, environment) = ("new", "production");
    let tenant = json!({
        "applicationId": "$application", "slug": slug, "name": "New", "environment": environment,
    });
    let machine_user = json!({
        "applicationId": "$application", "name": "New", "environment": environment,
        "username": "new", "password": PASSWORD,
    });
    let renamed = || json!({ "name": "Renamed" });
    let new_password = json!({ "name": "Renamed", "password": "another long password" });
    let with_token = "{ token machineUser { id } }";
    vec![
        Case::new("createApplication", "application.create", input(application))
            .forbids(&[Role::Member])
            .of_project("$project"),
        Case::new("updateApplication", "application.update", change("$application", renamed()))
            .inside("$application"),
        Case::new("createTenant", "tenant.create", input(tenant)).inside("$application"),
        Case::new("updateTenant", "tenant.update", change("$tenant", renamed())).inside("$tenant"),
        Case::new("createMachineUser", "machine_user.create", input(machine_user))
            .inside("$application")
            .answers(with_token, "/machineUser/id"),
        Case::new("updateMachineUser", "machine_user.update", change("$machineUser", new_password))
            .inside("$machineUser"),
        Case::new("rotateMachineUserToken", "machine_user.rotate_token", id("$anotherMachineUser"))
            .inside("$anotherMachineUser")
            .answers(with_token, "/machineUser/id"),
    ]
}

fn triggers() -> Vec<Case> {
    let trigger = json!({
        "applicationId": "$application", "name": "New", "runKey": "new",
        "cronExpression": "0 0 9 * * 1-5", "timeZone": "Europe/Berlin", "enabled": true,
    });
    let failed = json!({ "applicationId": "$application", "statuses": ["FAILED", "CANCELLED"] });
    vec![
        Case::new("createTrigger", "trigger.create", input(trigger)).inside("$application"),
        Case::new(
            "updateTrigger",
            "trigger.update",
            change("$trigger", json!({ "cronExpression": "0 0 * * * *" })),
        )
        .inside("$trigger"),
        // The row is about the trigger that was run; the answer is the occurrence.
        Case::new("runTrigger", "trigger.run", id("$trigger"))
            .inside("$trigger")
            .answers("{ id triggerId }", "/triggerId")
            .states(false, true),
        Case::new("retryDelivery", "delivery.retry", id("$failedDelivery"))
            .inside("$failedDelivery"),
        // The row is about the application, whose deliveries may be many.
        Case::new("retryDeliveries", "application.retry_deliveries", input(failed))
            .inside("$application")
            .answers("{ applicationId retried }", "/applicationId")
            .states(false, true),
    ]
}

fn deletes() -> Vec<Case> {
    vec![
        // The machine users of an application may delete its backends.
        Case::new("deleteBackend", "backend.delete", id("$backend"))
            .forbids(&[Role::Member])
            .inside("$backend"),
        Case::new("deleteTrigger", "trigger.delete", id("$trigger")).inside("$trigger"),
        Case::new("deleteTenant", "tenant.delete", id("$tenant")).inside("$tenant"),
        Case::new("deleteMachineUser", "machine_user.delete", id("$anotherMachineUser"))
            .inside("$anotherMachineUser"),
        Case::new("removeProjectMember", "project_member.delete", id("$membership"))
            .owners()
            .inside("$membership"),
        Case::new("deleteUser", "user.delete", id("$leaver")).administrators(),
        Case::new("deleteApplication", "application.delete", id("$application"))
            .inside("$application"),
        Case::new("deleteProject", "project.delete", id("$project"))
            .owners()
            .of_project("$project"),
    ]
}

pub fn id(id: &str) -> Value {
    json!({ "id": id })
}

pub fn input(input: Value) -> Value {
    json!({ "input": input })
}

pub fn change(id: &str, input: Value) -> Value {
    json!({ "id": id, "input": input })
}
