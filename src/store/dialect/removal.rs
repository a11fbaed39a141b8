//! Statements that end or delete all work of something that is deleted.
//!
//! Work is by far the largest table and has no index by what it belongs to, beyond what every
//! pass needs: an index costs each delivery. So these find open work by the indexes of open work,
//! deliveries by their occurrences, and the rest by the index of what is no delivery.

use super::Sql;

/// Cancels some of the open work that `$which` finds. Read first and held then: a limit beside an order
/// by id would walk the whole table by its key.
macro_rules! cancel_some_postgres {
    ($which:literal) => {
        concat!(
            "WITH open AS MATERIALIZED (SELECT id FROM scheduled_action WHERE ",
            $which,
            " LIMIT $4),
            held AS MATERIALIZED (SELECT id FROM scheduled_action
                WHERE id = ANY (ARRAY(SELECT id FROM open))
                    AND status IN ('pending', 'processing') ORDER BY id FOR UPDATE)
            UPDATE scheduled_action a ",
            cancelled!(),
            "
            WHERE a.id = ANY (ARRAY(SELECT id FROM held))
                AND a.status IN ('pending', 'processing')"
        )
    };
}

/// The same, of what waits and of what is being worked on.
macro_rules! cancel_some_sqlite {
    ($pending:literal, $processing:literal) => {
        concat!(
            "UPDATE scheduled_action ",
            cancelled!(),
            "
            WHERE id IN (
                SELECT id FROM scheduled_action WHERE status = 'pending' AND ",
            $pending,
            " UNION ALL
                SELECT id FROM scheduled_action WHERE status = 'processing' AND ",
            $processing,
            " LIMIT $4)"
        )
    };
}

/// Cancels open work of a backend. Answers the occurrences it was for. What waits for a backend
/// stands in its lane. `$1` backend, `$2` reason, `$3` now, `$4` how many at the most.
pub(in crate::store) const CANCEL_BACKEND_ACTIONS: Sql = Sql {
    sqlite: concat!(
        cancel_some_sqlite!("lane = $1 AND backend_id = $1", "backend_id = $1"),
        " RETURNING trigger_occurrence_id AS id"
    ),
    postgres: concat!(
        cancel_some_postgres!(
            "status = 'pending' AND lane = $1 AND backend_id = $1
                OR status = 'processing' AND backend_id = $1"
        ),
        " RETURNING a.trigger_occurrence_id AS id"
    ),
};

/// Cancels open work of a LINE OA. `$1` LINE OA, `$2` reason, `$3` now, `$4` how many at the most.
pub(in crate::store) const CANCEL_LINE_ACTIONS: Sql = Sql {
    sqlite: cancel_some_sqlite!("line_oa_id = $1", "line_oa_id = $1"),
    postgres: cancel_some_postgres!(
        "status = 'pending' AND line_oa_id = $1 OR status = 'processing' AND line_oa_id = $1"
    ),
};

/// Cancels open work of a workflow. `$1` workflow, `$2` reason, `$3` now, `$4` how many at the most.
pub(in crate::store) const CANCEL_WORKFLOW_ACTIONS: Sql = Sql {
    sqlite: cancel_some_sqlite!("workflow_id = $1", "workflow_id = $1"),
    postgres: cancel_some_postgres!(
        "status = 'pending' AND workflow_id = $1 OR status = 'processing' AND workflow_id = $1"
    ),
};

/// Cancels open work of a rule. `$1` rule, `$2` reason, `$3` now, `$4` how many at the most.
pub(in crate::store) const CANCEL_RULE_ACTIONS: Sql = Sql {
    sqlite: concat!(
        "UPDATE scheduled_action ",
        cancelled!(),
        "
        WHERE id IN (SELECT id FROM scheduled_action
            WHERE trigger_rule_id = $1 AND status IN ('pending', 'processing') LIMIT $4)"
    ),
    postgres: cancel_some_postgres!("trigger_rule_id = $1 AND status IN ('pending', 'processing')"),
};

/// Cancels these pieces of work, whoever holds them. Answers the occurrences they were for. `$1` ids,
/// `$2` reason, `$3` now.
pub(in crate::store) const CANCEL_WORK: Sql = Sql {
    sqlite: concat!(
        "UPDATE scheduled_action ",
        cancelled!(),
        "
        WHERE id IN (SELECT unhex(value) FROM jsonb_each($1))
            AND status IN ('pending', 'processing')
        RETURNING trigger_occurrence_id AS id"
    ),
    postgres: concat!(
        "WITH held AS MATERIALIZED (SELECT id FROM scheduled_action
            WHERE id = ANY (ARRAY(SELECT x::uuid FROM json_array_elements_text($1::json) x))
                AND status IN ('pending', 'processing') ORDER BY id FOR UPDATE)
        UPDATE scheduled_action a ",
        cancelled!(),
        "
        WHERE a.id = ANY (ARRAY(SELECT id FROM held)) AND a.status IN ('pending', 'processing')
        RETURNING a.trigger_occurrence_id AS id"
    ),
};

/// Those of these pieces of work that wait and that nobody holds, held until the transaction ends.
/// `$1` ids.
pub(in crate::store) const HOLD_WAITING_WORK: Sql = Sql {
    sqlite: "SELECT id FROM scheduled_action
        WHERE id IN (SELECT unhex(value) FROM jsonb_each($1)) AND status = 'pending'",
    postgres: "SELECT id FROM scheduled_action
        WHERE id = ANY (ARRAY(SELECT x::uuid FROM json_array_elements_text($1::json) x))
            AND status = 'pending' ORDER BY id FOR UPDATE SKIP LOCKED",
};

/// Deletes all work of applications: deliveries of their occurrences, calls, and what is part of
/// their workflows. `$1` application ids.
pub(in crate::store) const DELETE_APPLICATION_WORK: Sql = Sql {
    sqlite: "DELETE FROM scheduled_action WHERE id IN (
            SELECT a.id FROM trigger_occurrence o
                CROSS JOIN scheduled_action a ON a.trigger_occurrence_id = o.id
                WHERE o.application_id IN (SELECT unhex(value) FROM jsonb_each($1))
            UNION ALL
            SELECT id FROM scheduled_action WHERE trigger_id IS NULL
                AND (application_id IN (SELECT unhex(value) FROM jsonb_each($1))
                    OR workflow_id IN (SELECT id FROM workflow
                        WHERE application_id IN (SELECT unhex(value) FROM jsonb_each($1)))))",
    postgres: "WITH theirs AS MATERIALIZED (
            SELECT x::uuid AS id FROM json_array_elements_text($1::json) x),
        work AS MATERIALIZED (
            SELECT a.id FROM trigger_occurrence o
                JOIN scheduled_action a ON a.trigger_occurrence_id = o.id
                WHERE o.application_id = ANY (ARRAY(SELECT id FROM theirs))
            UNION ALL
            SELECT id FROM scheduled_action WHERE trigger_id IS NULL
                AND (application_id = ANY (ARRAY(SELECT id FROM theirs))
                    OR workflow_id = ANY (ARRAY(SELECT id FROM workflow
                        WHERE application_id = ANY (ARRAY(SELECT id FROM theirs)))))),
        held AS MATERIALIZED (SELECT id FROM scheduled_action
            WHERE id = ANY (ARRAY(SELECT id FROM work)) ORDER BY id FOR UPDATE)
        DELETE FROM scheduled_action a WHERE a.id = ANY (ARRAY(SELECT id FROM held))",
};

/// Deletes open work of applications. `$1` application ids.
pub(in crate::store) const DELETE_OPEN_APPLICATION_WORK: Sql = Sql {
    sqlite: "DELETE FROM scheduled_action WHERE id IN (
            SELECT id FROM scheduled_action WHERE status = 'pending'
                AND application_id IN (SELECT unhex(value) FROM jsonb_each($1))
            UNION ALL
            SELECT id FROM scheduled_action WHERE status = 'processing'
                AND application_id IN (SELECT unhex(value) FROM jsonb_each($1)))",
    postgres: "WITH theirs AS MATERIALIZED (
            SELECT x::uuid AS id FROM json_array_elements_text($1::json) x),
        held AS MATERIALIZED (SELECT id FROM scheduled_action
            WHERE status = 'pending' AND application_id = ANY (ARRAY(SELECT id FROM theirs))
                OR status = 'processing' AND application_id = ANY (ARRAY(SELECT id FROM theirs))
            ORDER BY id FOR UPDATE)
        DELETE FROM scheduled_action a WHERE a.id = ANY (ARRAY(SELECT id FROM held))",
};

/// Deletes the work of a project that is no delivery. `$1` project.
pub(in crate::store) const DELETE_PROJECT_WORK: Sql = Sql {
    sqlite: "DELETE FROM scheduled_action WHERE trigger_id IS NULL AND organization_id = $1",
    postgres: "WITH held AS MATERIALIZED (SELECT id FROM scheduled_action
            WHERE trigger_id IS NULL AND organization_id = $1 ORDER BY id FOR UPDATE)
        DELETE FROM scheduled_action a WHERE a.id = ANY (ARRAY(SELECT id FROM held))",
};

/// Deletes the open work of a project that is no delivery. `$1` project.
pub(in crate::store) const DELETE_OPEN_PROJECT_WORK: Sql = Sql {
    sqlite: "DELETE FROM scheduled_action WHERE id IN (
            SELECT id FROM scheduled_action WHERE status = 'pending' AND organization_id = $1
            UNION ALL
            SELECT id FROM scheduled_action WHERE status = 'processing' AND organization_id = $1)",
    postgres: "WITH held AS MATERIALIZED (SELECT id FROM scheduled_action
            WHERE status = 'pending' AND organization_id = $1
                OR status = 'processing' AND organization_id = $1
            ORDER BY id FOR UPDATE)
        DELETE FROM scheduled_action a WHERE a.id = ANY (ARRAY(SELECT id FROM held))",
};

/// Deletes what rate control remembers of deleted rules. `$1` now, `$2` how many.
pub(in crate::store) const DELETE_RULE_STATES: Sql = Sql {
    sqlite: "DELETE FROM rule_user_state WHERE (trigger_rule_id, user_id) IN (
            SELECT s.trigger_rule_id, s.user_id FROM trigger_rule r
                CROSS JOIN rule_user_state s ON s.trigger_rule_id = r.id
            WHERE r.deleted_date <= $1 LIMIT $2)",
    postgres: "WITH held AS MATERIALIZED (
            SELECT s.trigger_rule_id, s.user_id FROM trigger_rule r
                JOIN rule_user_state s ON s.trigger_rule_id = r.id
            WHERE r.deleted_date <= $1 LIMIT $2 FOR UPDATE OF s SKIP LOCKED)
        DELETE FROM rule_user_state s USING held h
        WHERE s.trigger_rule_id = h.trigger_rule_id AND s.user_id = h.user_id",
};
