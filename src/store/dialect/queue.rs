//! Statements of the queue: claim, finish, reap, and the log.

use super::Sql;

/// What an executor has to know of work; the rest is for those who read the queue. A row of a claim
/// costs as much for each column as for what is in it.
macro_rules! claimed {
    () => {
        "RETURNING id, trigger_rule_id, user_id, action_type, action_config, execute_at, expires_at,
            retry_count, attempts_before, workflow_id, workflow_node_path, trigger_id,
            trigger_occurrence_id, backend_id, application_id, line_oa_id, lane, event_id,
            last_error, created_at"
    };
}

/// Claims due work under a new lease.
///
/// Work stands in lanes (of a delivery: its backend). The statement walks the lanes that have
/// anything pending, from `$6` on, skipping from one to the next along the index, and takes at
/// most `$5` from each until it has `$4`. So a lane with a million rows costs the others
/// nothing, and lanes that the executor can't serve now (`$7`) cost one probe each.
///
/// On PostgreSQL the claim is a materialized CTE: a plain `LIMIT` below an `UPDATE` may be
/// evaluated more than once and claim more than the limit. Rows that another executor is
/// claiming are skipped. The rows are then found as an array of ids, which is always looked up
/// by the key; a join with the CTE would read the whole table as long as it is not large.
/// A lane's rows are asked for as a stretch of the index by lane and time: asked for by `lane =`, the
/// planner takes the index by time alone where few lanes stand in stretches, and reads all that is
/// due of the others to find one's.
///
/// `$1` now, `$2` lease token, `$3` lease end, `$4` how many, `$5` how many a lane, `$6` the
/// lane to start after, `$7` lanes to leave out.
pub(in crate::store) const CLAIM: Sql = Sql {
    sqlite: concat!(
        "UPDATE scheduled_action
        SET status = 'processing', lease_token = $2, lease_until = $3, updated_at = $1
        WHERE id IN (
            WITH RECURSIVE lanes(id) AS (
                SELECT * FROM (SELECT lane FROM scheduled_action
                    WHERE status = 'pending' AND lane > $6 ORDER BY lane LIMIT 1)
                UNION ALL
                SELECT (SELECT a.lane FROM scheduled_action a
                    WHERE a.status = 'pending' AND a.lane > lanes.id ORDER BY a.lane LIMIT 1)
                FROM lanes WHERE lanes.id IS NOT NULL)
            SELECT d.id FROM lanes CROSS JOIN scheduled_action d ON d.id IN (
                SELECT a.id FROM scheduled_action a
                WHERE a.status = 'pending' AND a.lane = lanes.id AND a.execute_at <= $1
                ORDER BY a.execute_at LIMIT $5)
            WHERE lanes.id IS NOT NULL
                AND lanes.id NOT IN (SELECT unhex(value) FROM jsonb_each($7))
            LIMIT $4)
        ",
        claimed!()
    ),
    postgres: concat!(
        "WITH RECURSIVE lanes(id) AS (
            (SELECT lane FROM scheduled_action
                WHERE status = 'pending' AND lane > $6 ORDER BY lane LIMIT 1)
            UNION ALL
            SELECT (SELECT a.lane FROM scheduled_action a
                WHERE a.status = 'pending' AND a.lane > lanes.id ORDER BY a.lane LIMIT 1)
            FROM lanes WHERE lanes.id IS NOT NULL),
        claimed AS MATERIALIZED (
            SELECT due.id FROM lanes CROSS JOIN LATERAL (
                SELECT a.id FROM scheduled_action a
                WHERE a.status = 'pending' AND a.lane >= lanes.id
                    AND (a.lane, a.execute_at) <= (lanes.id, $1)
                ORDER BY a.lane, a.execute_at LIMIT $5 FOR UPDATE SKIP LOCKED) due
            WHERE lanes.id IS NOT NULL
                AND lanes.id NOT IN (SELECT x::uuid FROM json_array_elements_text($7::json) x)
            LIMIT $4)
        UPDATE scheduled_action a
        SET status = 'processing', lease_token = $2, lease_until = $3, updated_at = $1
        WHERE a.id = ANY (ARRAY(SELECT id FROM claimed))
        ",
        claimed!()
    ),
};

/// Writes deliveries of occurrences that are there; what all of an occurrence's deliveries share
/// is taken from it. `$1` rows {id, trigger_occurrence_id, backend_id, status, execute_at,
/// expires_at, lease_token, lease_until, created_at}.
pub(in crate::store) const INSERT_DELIVERIES: Sql = Sql {
    sqlite: "INSERT INTO scheduled_action (id, action_type, action_config, execute_at,
            expires_at, status, trigger_id, trigger_occurrence_id, backend_id, application_id,
            lane, lease_token, lease_until, created_at, updated_at)
        SELECT unhex(r.value ->> 'id'), 'call_backend', o.payload, r.value ->> 'execute_at',
            r.value ->> 'expires_at', r.value ->> 'status', o.trigger_id, o.id,
            unhex(r.value ->> 'backend_id'), o.application_id, unhex(r.value ->> 'backend_id'),
            unhex(r.value ->> 'lease_token'), r.value ->> 'lease_until',
            r.value ->> 'created_at', r.value ->> 'created_at'
        FROM jsonb_each($1) r
            JOIN trigger_occurrence o ON o.id = unhex(r.value ->> 'trigger_occurrence_id')",
    postgres: "INSERT INTO scheduled_action (id, action_type, action_config, execute_at,
            expires_at, status, trigger_id, trigger_occurrence_id, backend_id, application_id,
            lane, lease_token, lease_until, created_at, updated_at)
        SELECT r.id, 'call_backend', o.payload, r.execute_at, r.expires_at, r.status,
            o.trigger_id, o.id, r.backend_id, o.application_id, r.backend_id, r.lease_token,
            r.lease_until, r.created_at, r.created_at
        FROM json_to_recordset($1::json) AS r(id uuid, trigger_occurrence_id uuid,
                backend_id uuid, status text, execute_at timestamptz, expires_at timestamptz,
                lease_token uuid, lease_until timestamptz, created_at timestamptz)
            JOIN trigger_occurrence o ON o.id = r.trigger_occurrence_id",
};

/// Records what came of claimed work, where the lease still holds; whoever lost the lease
/// changes nothing. Answers the ids of those recorded. `$1` rows {id, lease_token, status,
/// execute_at, executed_at, retry_count, last_error}, `$2` now.
pub(in crate::store) const FINISH: Sql = Sql {
    sqlite: "UPDATE scheduled_action SET status = r.value ->> 'status',
            execute_at = r.value ->> 'execute_at', executed_at = r.value ->> 'executed_at',
            retry_count = r.value ->> 'retry_count', last_error = r.value ->> 'last_error',
            lease_token = NULL, lease_until = NULL, updated_at = $2
        FROM jsonb_each($1) r
        WHERE scheduled_action.id = unhex(r.value ->> 'id') AND lease_token = unhex(r.value ->> 'lease_token')
        RETURNING id",
    postgres: "WITH r AS (SELECT * FROM json_to_recordset($1::json) AS r(id uuid,
            lease_token uuid, status text, execute_at timestamptz, executed_at timestamptz,
            retry_count int, last_error text)),
        held AS MATERIALIZED (SELECT a.id FROM scheduled_action a
            JOIN r ON r.id = a.id AND r.lease_token = a.lease_token
            WHERE a.id = ANY (ARRAY(SELECT id FROM r)) ORDER BY a.id FOR UPDATE OF a)
        UPDATE scheduled_action a SET status = r.status, execute_at = r.execute_at,
            executed_at = r.executed_at, retry_count = r.retry_count, last_error = r.last_error,
            lease_token = NULL, lease_until = NULL, updated_at = $2
        FROM r WHERE a.id = r.id AND a.lease_token = r.lease_token
            AND a.id = ANY (ARRAY(SELECT id FROM held))
        RETURNING a.id",
};

/// Makes work whose lease has ended due again. Answers which, and how many attempts it has had. `$1`
/// now, `$2` how many.
pub(in crate::store) const REAP: Sql = Sql {
    sqlite: "UPDATE scheduled_action SET status = 'pending', execute_at = $1,
            retry_count = retry_count + 1, last_error = 'the executor that held it went away',
            lease_token = NULL, lease_until = NULL, updated_at = $1
        WHERE id IN (SELECT id FROM scheduled_action
            WHERE status = 'processing' AND updated_at < $1 AND lease_until < $1
            ORDER BY updated_at LIMIT $2)
        RETURNING id, retry_count",
    postgres: "WITH ended AS MATERIALIZED (SELECT id FROM scheduled_action
            WHERE status = 'processing' AND updated_at < $1 AND lease_until < $1
            ORDER BY updated_at LIMIT $2 FOR UPDATE SKIP LOCKED)
        UPDATE scheduled_action a SET status = 'pending', execute_at = $1,
            retry_count = a.retry_count + 1, last_error = 'the executor that held it went away',
            lease_token = NULL, lease_until = NULL, updated_at = $1
        WHERE a.id = ANY (ARRAY(SELECT id FROM ended))
        RETURNING id, retry_count",
};

/// Cancels open work of occurrences. `$1` occurrence ids, `$2` reason, `$3` now.
pub(in crate::store) const CANCEL_ACTIONS: Sql = Sql {
    sqlite: concat!(
        "UPDATE scheduled_action ",
        cancelled!(),
        "
        WHERE trigger_occurrence_id IN (SELECT unhex(value) FROM jsonb_each($1))
            AND status IN ('pending', 'processing')"
    ),
    postgres: concat!(
        "WITH held AS MATERIALIZED (SELECT id FROM scheduled_action
            WHERE trigger_occurrence_id
                    IN (SELECT x::uuid FROM json_array_elements_text($1::json) x)
                AND status IN ('pending', 'processing') ORDER BY id FOR UPDATE)
        UPDATE scheduled_action a ",
        cancelled!(),
        "
        FROM held h WHERE a.id = h.id AND a.status IN ('pending', 'processing')"
    ),
};

/// Cancels one piece of open work. `$1` id, `$2` reason, `$3` now.
pub(in crate::store) const CANCEL_ACTION: Sql = Sql {
    sqlite: concat!(
        "UPDATE scheduled_action ",
        cancelled!(),
        "
        WHERE id = $1 AND status IN ('pending', 'processing')"
    ),
    postgres: concat!(
        "UPDATE scheduled_action ",
        cancelled!(),
        "
        WHERE id = $1 AND status IN ('pending', 'processing')"
    ),
};

/// Makes what waits in lanes because it failed or was put off due; what waits for its time goes on
/// waiting: nothing has happened to it yet, and so it has no `last_error`. What another transaction
/// holds is left to it. `$1` lanes, `$2` now.
pub(in crate::store) const WAKE_LANES: Sql = Sql {
    sqlite: "UPDATE scheduled_action SET execute_at = $2, updated_at = $2
        WHERE lane IN (SELECT unhex(value) FROM jsonb_each($1)) AND status = 'pending'
            AND execute_at > $2 AND last_error IS NOT NULL
            AND (lease_until IS NULL OR lease_until <= $2)",
    postgres: "WITH held AS MATERIALIZED (SELECT id FROM scheduled_action
            WHERE lane = ANY (ARRAY(SELECT x::uuid FROM json_array_elements_text($1::json) x))
                AND status = 'pending' AND execute_at > $2 AND last_error IS NOT NULL
                AND (lease_until IS NULL OR lease_until <= $2)
            ORDER BY id FOR UPDATE SKIP LOCKED)
        UPDATE scheduled_action a SET execute_at = $2, updated_at = $2
        FROM held h WHERE a.id = h.id",
};

/// Writes log rows. `$1` rows.
pub(in crate::store) const INSERT_LOGS: Sql = Sql {
    sqlite: "INSERT INTO trigger_log (trigger_on, trigger_rule_id, audience_id, user_id,
            action_type, action_config, status, error_message, trigger_id,
            trigger_occurrence_id, scheduled_action_id, event_id, application_id,
            organization_id, line_oa_id, reason, held_until, created_date)
        SELECT value ->> 'trigger_on', unhex(value ->> 'trigger_rule_id'),
            unhex(value ->> 'audience_id'), value ->> 'user_id', value ->> 'action_type',
            nullif(value -> 'action_config', 'null'), value ->> 'status',
            value ->> 'error_message', unhex(value ->> 'trigger_id'),
            unhex(value ->> 'trigger_occurrence_id'), unhex(value ->> 'scheduled_action_id'),
            unhex(value ->> 'event_id'), unhex(value ->> 'application_id'),
            unhex(value ->> 'organization_id'), unhex(value ->> 'line_oa_id'),
            value ->> 'reason', value ->> 'held_until', value ->> 'created_date'
        FROM jsonb_each($1)",
    postgres: "INSERT INTO trigger_log (trigger_on, trigger_rule_id, audience_id, user_id,
            action_type, action_config, status, error_message, trigger_id,
            trigger_occurrence_id, scheduled_action_id, event_id, application_id,
            organization_id, line_oa_id, reason, held_until, created_date)
        SELECT trigger_on, trigger_rule_id, audience_id, user_id, action_type, action_config,
            status, error_message, trigger_id, trigger_occurrence_id, scheduled_action_id,
            event_id, application_id, organization_id, line_oa_id, reason, held_until,
            created_date
        FROM json_to_recordset($1::json) AS r(trigger_on text, trigger_rule_id uuid,
            audience_id uuid, user_id text, action_type text, action_config jsonb, status text,
            error_message text, trigger_id uuid, trigger_occurrence_id uuid,
            scheduled_action_id uuid, event_id uuid, application_id uuid, organization_id uuid,
            line_oa_id uuid, reason text, held_until timestamptz, created_date timestamptz)",
};

/// Writes log rows of attempts; what was to be done, why and for whom is taken from the work. What a
/// trigger's call sends stands in its occurrence, and not once more in the row of each attempt.
/// `$1` rows {scheduled_action_id, status, error_message, attempt, response_status, duration_ms,
/// reason, platform_request_id, created_date}.
pub(in crate::store) const LOG_ATTEMPTS: Sql = Sql {
    sqlite: "INSERT INTO trigger_log (trigger_on, trigger_rule_id, user_id, action_type,
            action_config, status, error_message, trigger_id, trigger_occurrence_id, backend_id,
            scheduled_action_id, event_id, application_id, organization_id, line_oa_id, attempt,
            response_status, duration_ms, reason, platform_request_id, created_date)
        SELECT coalesce(a.source_type, 'trigger'), a.trigger_rule_id, a.user_id, a.action_type,
            iif(a.trigger_id IS NULL, a.action_config, NULL), r.value ->> 'status', r.value ->> 'error_message', a.trigger_id,
            a.trigger_occurrence_id, a.backend_id, a.id, a.event_id, a.application_id,
            a.organization_id, a.line_oa_id, r.value ->> 'attempt',
            r.value ->> 'response_status', r.value ->> 'duration_ms', r.value ->> 'reason',
            r.value ->> 'platform_request_id', r.value ->> 'created_date'
        FROM jsonb_each($1) r
            JOIN scheduled_action a ON a.id = unhex(r.value ->> 'scheduled_action_id')",
    postgres: "INSERT INTO trigger_log (trigger_on, trigger_rule_id, user_id, action_type,
            action_config, status, error_message, trigger_id, trigger_occurrence_id, backend_id,
            scheduled_action_id, event_id, application_id, organization_id, line_oa_id, attempt,
            response_status, duration_ms, reason, platform_request_id, created_date)
        SELECT coalesce(a.source_type, 'trigger'), a.trigger_rule_id, a.user_id, a.action_type,
            CASE WHEN a.trigger_id IS NULL THEN a.action_config END, r.status, r.error_message, a.trigger_id, a.trigger_occurrence_id,
            a.backend_id, a.id, a.event_id, a.application_id, a.organization_id, a.line_oa_id,
            r.attempt, r.response_status, r.duration_ms, r.reason, r.platform_request_id,
            r.created_date
        FROM json_to_recordset($1::json) AS r(scheduled_action_id uuid, status text,
                error_message text, attempt int, response_status smallint, duration_ms int,
                reason text, platform_request_id text, created_date timestamptz)
            JOIN scheduled_action a ON a.id = r.scheduled_action_id",
};

/// How much work waits, an application a row.
pub(in crate::store) const QUEUE_DEPTH: Sql = Sql {
    sqlite: "SELECT application_id, count(*) AS n FROM scheduled_action
        WHERE status = 'pending' GROUP BY application_id",
    postgres: "SELECT application_id, count(*) AS n FROM scheduled_action
        WHERE status = 'pending' GROUP BY application_id",
};
