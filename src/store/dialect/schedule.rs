//! Statements of the schedule: which triggers are due, and the ledger of occurrences.

use super::Sql;

/// The latest occurrence of each trigger in a list. `$1` ids.
pub(in crate::store) const LATEST_OCCURRENCES: Sql = Sql {
    sqlite: "SELECT * FROM trigger_occurrence WHERE id IN (
        SELECT (SELECT o.id FROM trigger_occurrence o WHERE o.trigger_id = unhex(t.value)
                ORDER BY o.scheduled_at DESC LIMIT 1)
        FROM jsonb_each($1) t)",
    postgres: "SELECT o.* FROM json_array_elements_text($1::json) t(id)
        CROSS JOIN LATERAL (
            SELECT * FROM trigger_occurrence WHERE trigger_id = t.id::uuid
            ORDER BY scheduled_at DESC LIMIT 1) o",
};

/// The triggers that are due, earliest first, held until the transaction ends; those that
/// another executor holds are left to it. `$1` now, `$2` how many.
pub(in crate::store) const DUE_TRIGGERS: Sql = Sql {
    sqlite: r#"SELECT * FROM "trigger" WHERE next_fire_at <= $1 ORDER BY next_fire_at LIMIT $2"#,
    postgres: r#"SELECT * FROM "trigger" WHERE next_fire_at <= $1 ORDER BY next_fire_at LIMIT $2
        FOR UPDATE SKIP LOCKED"#,
};

/// Moves the windows of triggers. `$1` rows {id, evaluated_at, next_fire_at}.
pub(in crate::store) const MOVE_WINDOWS: Sql = Sql {
    sqlite: r#"UPDATE "trigger" SET
            evaluated_at = r.value ->> 'evaluated_at', next_fire_at = r.value ->> 'next_fire_at'
        FROM jsonb_each($1) r WHERE "trigger".id = unhex(r.value ->> 'id')"#,
    postgres: r#"UPDATE "trigger" t SET evaluated_at = r.evaluated_at, next_fire_at = r.next_fire_at
        FROM json_to_recordset($1::json)
            AS r(id uuid, evaluated_at timestamptz, next_fire_at timestamptz)
        WHERE t.id = r.id"#,
};

/// Writes occurrences; one that is there already is left as it is. Answers the ids of those
/// written. `$1` rows.
pub(in crate::store) const INSERT_OCCURRENCES: Sql = Sql {
    sqlite: "INSERT INTO trigger_occurrence (id, trigger_id, application_id, scheduled_at,
            origin, status, reason, occurrences, until_at, payload, deliveries,
            fan_out_attempts, next_attempt_at, created_at, finished_at)
        SELECT unhex(value ->> 'id'), unhex(value ->> 'trigger_id'),
            unhex(value ->> 'application_id'), value ->> 'scheduled_at', value ->> 'origin',
            value ->> 'status', value ->> 'reason', value ->> 'occurrences',
            value ->> 'until_at', value -> 'payload', value ->> 'deliveries',
            value ->> 'fan_out_attempts', value ->> 'next_attempt_at', value ->> 'created_at', value ->> 'finished_at'
        FROM jsonb_each($1) WHERE true
        ON CONFLICT (trigger_id, scheduled_at) DO NOTHING RETURNING id",
    postgres: "INSERT INTO trigger_occurrence (id, trigger_id, application_id, scheduled_at,
            origin, status, reason, occurrences, until_at, payload, deliveries,
            fan_out_attempts, next_attempt_at, created_at, finished_at)
        SELECT id, trigger_id, application_id, scheduled_at, origin, status, reason,
            occurrences, until_at, payload, deliveries, fan_out_attempts, next_attempt_at,
            created_at, finished_at
        FROM json_to_recordset($1::json) AS r(id uuid, trigger_id uuid, application_id uuid,
            scheduled_at timestamptz, origin text, status text, reason text, occurrences int,
            until_at timestamptz, payload jsonb, deliveries int, fan_out_attempts int,
            next_attempt_at timestamptz, created_at timestamptz, finished_at timestamptz)
        ON CONFLICT (trigger_id, scheduled_at) DO NOTHING RETURNING id",
};

/// Occurrences that found no backend and are to be tried again, held until the transaction
/// ends. `$1` now, `$2` how many.
pub(in crate::store) const WAITING_OCCURRENCES: Sql = Sql {
    sqlite: "SELECT * FROM trigger_occurrence WHERE next_attempt_at <= $1
        ORDER BY next_attempt_at LIMIT $2",
    postgres: "SELECT * FROM trigger_occurrence WHERE next_attempt_at <= $1
        ORDER BY next_attempt_at LIMIT $2 FOR UPDATE SKIP LOCKED",
};

/// What a renewed fan-out came to. `$1` rows {id, status, reason, deliveries,
/// fan_out_attempts, next_attempt_at, finished_at}.
pub(in crate::store) const UPDATE_WAITING: Sql = Sql {
    sqlite: "UPDATE trigger_occurrence SET status = r.value ->> 'status',
            reason = r.value ->> 'reason', deliveries = r.value ->> 'deliveries',
            fan_out_attempts = r.value ->> 'fan_out_attempts',
            next_attempt_at = r.value ->> 'next_attempt_at',
            finished_at = r.value ->> 'finished_at'
        FROM jsonb_each($1) r WHERE trigger_occurrence.id = unhex(r.value ->> 'id')",
    postgres: "UPDATE trigger_occurrence o SET status = r.status, reason = r.reason,
            deliveries = r.deliveries, fan_out_attempts = r.fan_out_attempts,
            next_attempt_at = r.next_attempt_at, finished_at = r.finished_at
        FROM json_to_recordset($1::json) AS r(id uuid, status text, reason text, deliveries int,
            fan_out_attempts int, next_attempt_at timestamptz, finished_at timestamptz)
        WHERE o.id = r.id",
};

/// Makes the waiting occurrences of an application due; what another transaction holds is left to it.
/// `$1` application, `$2` now.
pub(in crate::store) const WAKE_WAITING: Sql = Sql {
    sqlite: "UPDATE trigger_occurrence SET next_attempt_at = $2
        WHERE application_id = $1 AND next_attempt_at > $2",
    postgres: "WITH held AS MATERIALIZED (SELECT id FROM trigger_occurrence
            WHERE application_id = $1 AND next_attempt_at > $2
            ORDER BY id FOR UPDATE SKIP LOCKED)
        UPDATE trigger_occurrence o SET next_attempt_at = $2
        FROM held h WHERE o.id = h.id",
};

/// Counts ended deliveries into their occurrences, and ends those that have none left.
/// Answers those that ended. `$1` rows {id, delivered, failed}, `$2` now.
pub(in crate::store) const SETTLE_OCCURRENCES: Sql = Sql {
    sqlite: "UPDATE trigger_occurrence SET
            delivered = delivered + (r.value ->> 'delivered'),
            failed = failed + (r.value ->> 'failed'),
            status = CASE
                WHEN delivered + failed + (r.value ->> 'delivered') + (r.value ->> 'failed')
                    < deliveries THEN status
                WHEN failed + (r.value ->> 'failed') = 0 THEN 'delivered'
                WHEN delivered + (r.value ->> 'delivered') = 0 THEN 'failed'
                ELSE 'partially_delivered' END,
            finished_at = CASE
                WHEN delivered + failed + (r.value ->> 'delivered') + (r.value ->> 'failed')
                    >= deliveries THEN $2 END
        FROM jsonb_each($1) r
        WHERE trigger_occurrence.id = unhex(r.value ->> 'id') AND status = 'pending'
        RETURNING id, application_id, status, created_at, scheduled_at",
    postgres: "WITH r AS (
            SELECT * FROM json_to_recordset($1::json) AS r(id uuid, delivered int, failed int)),
        held AS MATERIALIZED (SELECT id FROM trigger_occurrence
            WHERE id = ANY (ARRAY(SELECT id FROM r)) AND status = 'pending'
            ORDER BY id FOR UPDATE)
        UPDATE trigger_occurrence o SET
            delivered = o.delivered + r.delivered, failed = o.failed + r.failed,
            status = CASE
                WHEN o.delivered + o.failed + r.delivered + r.failed < o.deliveries THEN o.status
                WHEN o.failed + r.failed = 0 THEN 'delivered'
                WHEN o.delivered + r.delivered = 0 THEN 'failed'
                ELSE 'partially_delivered' END,
            finished_at = CASE
                WHEN o.delivered + o.failed + r.delivered + r.failed >= o.deliveries
                    THEN $2::timestamptz END
        FROM r WHERE o.id = r.id AND o.status = 'pending'
            AND o.id = ANY (ARRAY(SELECT id FROM held))
        RETURNING o.id, o.application_id, o.status, o.created_at, o.scheduled_at",
};

/// Ends occurrences that are pending; what has not been delivered of them counts as failed. Answers
/// their ids. `$1` ids, `$2` reason, `$3` now.
pub(in crate::store) const CANCEL_OCCURRENCES: Sql = Sql {
    sqlite: "UPDATE trigger_occurrence SET status = 'cancelled', reason = $2, finished_at = $3,
            next_attempt_at = NULL, failed = deliveries - delivered
        WHERE id IN (SELECT unhex(value) FROM jsonb_each($1)) AND status = 'pending' RETURNING id",
    postgres: "WITH held AS MATERIALIZED (SELECT id FROM trigger_occurrence
            WHERE id = ANY (ARRAY(SELECT x::uuid FROM json_array_elements_text($1::json) x))
                AND status = 'pending' ORDER BY id FOR UPDATE)
        UPDATE trigger_occurrence o SET status = 'cancelled', reason = $2, finished_at = $3,
            next_attempt_at = NULL, failed = o.deliveries - o.delivered
        FROM held h WHERE o.id = h.id AND o.status = 'pending' RETURNING o.id",
};

/// How many triggers are enabled.
pub(in crate::store) const ACTIVE_TRIGGERS: Sql = Sql {
    sqlite: r#"SELECT count(*) AS n FROM "trigger" WHERE next_fire_at IS NOT NULL"#,
    postgres: r#"SELECT count(*) AS n FROM "trigger" WHERE next_fire_at IS NOT NULL"#,
};

/// The earliest due time of triggers, of pending work, of waiting occurrences and of time-based
/// rules, and the oldest event, cycle and withdrawal that are not worked off; each none when there is
/// nothing.
pub(in crate::store) const NEXT_DUE: Sql = Sql {
    sqlite: r#"SELECT
        (SELECT min(next_fire_at) FROM "trigger" WHERE next_fire_at IS NOT NULL) AS trigger_at,
        (SELECT min(execute_at) FROM scheduled_action WHERE status = 'pending') AS action_at,
        (SELECT min(next_attempt_at) FROM trigger_occurrence
            WHERE next_attempt_at IS NOT NULL) AS waiting_at,
        (SELECT min(next_fire_at) FROM trigger_rule WHERE next_fire_at IS NOT NULL) AS rule_at,
        (SELECT received_at FROM event WHERE status = 'pending' ORDER BY id LIMIT 1) AS event_at,
        (SELECT started_at FROM scheduled_trigger_execution WHERE status = 'processing'
            ORDER BY id LIMIT 1) AS cycle_at,
        (SELECT min(created_at) FROM withdrawal) AS withdrawal_at"#,
    postgres: r#"SELECT
        (SELECT min(next_fire_at) FROM "trigger" WHERE next_fire_at IS NOT NULL) AS trigger_at,
        (SELECT min(execute_at) FROM scheduled_action WHERE status = 'pending') AS action_at,
        (SELECT min(next_attempt_at) FROM trigger_occurrence
            WHERE next_attempt_at IS NOT NULL) AS waiting_at,
        (SELECT min(next_fire_at) FROM trigger_rule WHERE next_fire_at IS NOT NULL) AS rule_at,
        (SELECT received_at FROM event WHERE status = 'pending' ORDER BY id LIMIT 1) AS event_at,
        (SELECT started_at FROM scheduled_trigger_execution WHERE status = 'processing'
            ORDER BY id LIMIT 1) AS cycle_at,
        (SELECT min(created_at) FROM withdrawal) AS withdrawal_at"#,
};
