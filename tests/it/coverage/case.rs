//! What is claimed of a mutation.

use serde_json::Value;

use crate::served::Role;

pub struct Case {
    pub mutation: &'static str,
    /// A text that begins with `$` stands for an id of the world.
    pub arguments: Value,
    pub selection: &'static str,
    /// Where the answer holds the id of what was changed.
    pub entity: &'static str,
    /// The weakest role that may.
    pub by: Role,
    /// Roles that know of the thing and are forbidden.
    pub forbids: &'static [Role],
    /// The id of a thing, and the roles to which that thing is like a missing one.
    pub hides: Option<(&'static str, &'static [Role])>,
    /// The audit row's action, and whether it has a state before and one after.
    pub audit: (&'static str, bool, bool),
}

/// What is inside of an application.
pub const STRANGERS: &[Role] = &[Role::Outsider, Role::Sibling];
const READERS: &[Role] = &[Role::Member, Role::Machine];
/// All that are signed in and no administrator.
const ORDINARY: &[Role] =
    &[Role::Outsider, Role::Sibling, Role::Machine, Role::Member, Role::Maintainer, Role::Owner];
const MACHINES: &[Role] = &[Role::Sibling, Role::Machine];

impl Case {
    pub fn new(mutation: &'static str, action: &'static str, arguments: Value) -> Self {
        Self {
            mutation,
            arguments,
            selection: "{ id }",
            entity: "/id",
            by: Role::Maintainer,
            forbids: READERS,
            hides: None,
            audit: (action, action_had_before(action), action_has_after(action)),
        }
    }

    /// Needs a maintainer, and is about something inside of an application: `hidden`.
    pub fn inside(self, hidden: &'static str) -> Self {
        Self { hides: Some((hidden, STRANGERS)), ..self }
    }

    /// Is about the project, which each of its machine users knows.
    pub fn of_project(self, hidden: &'static str) -> Self {
        Self { hides: Some((hidden, &[Role::Outsider])), ..self }
    }

    /// Is about something of the project that no machine user knows.
    pub fn of_people(self, hidden: &'static str) -> Self {
        const NOBODY: &[Role] = &[Role::Outsider, Role::Sibling, Role::Machine];
        Self { hides: Some((hidden, NOBODY)), forbids: &[Role::Member], ..self }
    }

    pub fn owners(self) -> Self {
        Self { by: Role::Owner, forbids: &[Role::Member, Role::Maintainer], ..self }
    }

    pub fn administrators(self) -> Self {
        Self { by: Role::Administrator, forbids: ORDINARY, ..self }
    }

    /// For every user, and no machine.
    pub fn users(self, by: Role) -> Self {
        Self { by, forbids: MACHINES, ..self }
    }

    pub fn forbids(self, forbids: &'static [Role]) -> Self {
        Self { forbids, ..self }
    }

    pub fn hides(self, hidden: &'static str, from: &'static [Role]) -> Self {
        Self { hides: Some((hidden, from)), ..self }
    }

    pub fn answers(self, selection: &'static str, entity: &'static str) -> Self {
        Self { selection, entity, ..self }
    }

    pub fn states(self, before: bool, after: bool) -> Self {
        Self { audit: (self.audit.0, before, after), ..self }
    }
}

fn action_had_before(action: &str) -> bool {
    !action.ends_with(".create")
}

fn action_has_after(action: &str) -> bool {
    !action.ends_with(".delete")
}
