//! Statements that make ended work due again.

use super::Sql;

/// Deliveries that may be tried again: their trigger and their backend are still there, and nothing of the
/// trigger is being taken back. By due
/// time. `$1` application, `$2` due then or later, `$3` due before, `$4` states, `$5` trigger or
/// null, `$6` backend or null, `$7` how many, `$8` ended then or
/// later, `$9` ended before.
pub(in crate::store) const RETRYABLE: Sql = Sql {
    sqlite: r#"SELECT a.id, o.trigger_id FROM trigger_occurrence o
            CROSS JOIN scheduled_action a ON a.trigger_occurrence_id = o.id
            CROSS JOIN "trigger" t ON t.id = o.trigger_id
            CROSS JOIN backend_registration b ON b.id = a.backend_id
        WHERE o.application_id = $1 AND o.scheduled_at >= $2 AND o.scheduled_at < $3
            AND a.executed_at >= $8 AND a.executed_at < $9
            AND o.failed > 0 AND a.status IN (SELECT value FROM jsonb_each($4))
            AND ($5 IS NULL OR o.trigger_id = $5) AND ($6 IS NULL OR a.backend_id = $6)
            AND NOT EXISTS (SELECT 1 FROM withdrawal w WHERE w.entity_id = o.trigger_id)
        ORDER BY o.scheduled_at LIMIT $7"#,
    postgres: r#"SELECT a.id, o.trigger_id FROM trigger_occurrence o
            JOIN scheduled_action a ON a.trigger_occurrence_id = o.id
            JOIN "trigger" t ON t.id = o.trigger_id
            JOIN backend_registration b ON b.id = a.backend_id
        WHERE o.application_id = $1 AND o.scheduled_at >= $2 AND o.scheduled_at < $3
            AND a.executed_at >= $8 AND a.executed_at < $9
            AND o.failed > 0 AND a.status = ANY (ARRAY(SELECT json_array_elements_text($4::json)))
            AND ($5::uuid IS NULL OR o.trigger_id = $5::uuid)
            AND ($6::uuid IS NULL OR a.backend_id = $6::uuid)
            AND NOT EXISTS (SELECT 1 FROM withdrawal w WHERE w.entity_id = o.trigger_id)
        ORDER BY o.scheduled_at LIMIT $7"#,
};

/// Makes ended work due again, at the earliest when an attempt that was under way when it was
/// cancelled must have ended: attempts of one piece of work do not overlap. When that is stays known, for
/// who cancels and retries it once more, and for who wakes what waits. Answers the
/// occurrence, if it has one, of each that was. `$1` ids, `$2` now, `$3` end of their budget.
pub(in crate::store) const REQUEUE_ACTIONS: Sql = Sql {
    sqlite: "UPDATE scheduled_action SET status = 'pending', attempts_before = retry_count,
            execute_at = max($2, coalesce(lease_until, $2)), expires_at = $3,
            executed_at = NULL, updated_at = $2
        WHERE id IN (SELECT unhex(value) FROM jsonb_each($1))
            AND status IN ('failed', 'cancelled', 'expired')
        RETURNING trigger_occurrence_id AS id",
    postgres: "WITH held AS MATERIALIZED (SELECT id FROM scheduled_action
            WHERE id = ANY (ARRAY(SELECT x::uuid FROM json_array_elements_text($1::json) x))
            ORDER BY id FOR UPDATE)
        UPDATE scheduled_action a SET status = 'pending', attempts_before = retry_count,
            execute_at = greatest($2, lease_until), expires_at = $3,
            executed_at = NULL, updated_at = $2
        WHERE a.id = ANY (ARRAY(SELECT id FROM held))
            AND a.status IN ('failed', 'cancelled', 'expired')
        RETURNING a.trigger_occurrence_id AS id",
};

/// Makes occurrences pending again, with `reopened` ended deliveries less. `$1` rows
/// {id, reopened}.
pub(in crate::store) const REOPEN_OCCURRENCES: Sql = Sql {
    sqlite: "UPDATE trigger_occurrence SET status = 'pending', reason = NULL,
            finished_at = NULL, failed = max(failed - (r.value ->> 'reopened'), 0)
        FROM jsonb_each($1) r WHERE trigger_occurrence.id = unhex(r.value ->> 'id')",
    postgres: "WITH r AS (
            SELECT * FROM json_to_recordset($1::json) AS r(id uuid, reopened int)),
        held AS MATERIALIZED (SELECT id FROM trigger_occurrence
            WHERE id = ANY (ARRAY(SELECT id FROM r)) ORDER BY id FOR UPDATE)
        UPDATE trigger_occurrence o SET status = 'pending', reason = NULL,
            finished_at = NULL, failed = greatest(o.failed - r.reopened, 0)
        FROM r WHERE o.id = r.id AND o.id = ANY (ARRAY(SELECT id FROM held))",
};

/// Makes work due at `$2` that waits for something that is there by now. `$1` ids.
pub(in crate::store) const WAKE_ACTIONS: Sql = Sql {
    sqlite: "UPDATE scheduled_action SET execute_at = $2, updated_at = $2
        WHERE id IN (SELECT unhex(value) FROM jsonb_each($1))
            AND status = 'pending' AND execute_at > $2",
    postgres: "WITH held AS MATERIALIZED (SELECT id FROM scheduled_action
            WHERE id = ANY (ARRAY(SELECT x::uuid FROM json_array_elements_text($1::json) x))
            ORDER BY id FOR UPDATE)
        UPDATE scheduled_action a SET execute_at = $2, updated_at = $2
        WHERE a.id = ANY (ARRAY(SELECT id FROM held))
            AND a.status = 'pending' AND a.execute_at > $2",
};
