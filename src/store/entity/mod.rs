//! SeaORM entities, one file per table. Private to the store: what leaves it is a domain type.

#![allow(missing_docs, reason = "the columns are described by the domain types")]

pub mod application;
pub mod audience;
pub mod audience_member;
pub mod audit_log;
pub mod backend_registration;
pub mod event;
pub mod executor_instance;
pub mod line_oa;
pub mod line_user;
pub mod machine_user;
pub mod personal_access_token;
pub mod project;
pub mod project_member;
pub mod rule_user_state;
pub mod scheduled_action;
pub mod scheduled_trigger_execution;
pub mod setting;
pub mod tenant;
pub mod trigger;
pub mod trigger_log;
pub mod trigger_occurrence;
pub mod trigger_rule;
pub mod user;
pub mod withdrawal;
pub mod workflow;
