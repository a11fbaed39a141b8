//! Statements that read the log of attempts.

use super::Sql;

/// The attempts of deliveries, of each the newest, oldest first. `$1` ids, `$2` how many of each.
pub(in crate::store) const ATTEMPTS: Sql = Sql {
    sqlite: "SELECT * FROM (SELECT l.*, row_number() OVER (
                PARTITION BY l.scheduled_action_id ORDER BY l.id DESC) AS place
            FROM trigger_log l WHERE l.attempt IS NOT NULL
                AND l.scheduled_action_id IN (SELECT unhex(value) FROM json_each($1)))
        WHERE place <= $2 ORDER BY id",
    postgres: "SELECT l.* FROM (SELECT DISTINCT x::uuid AS id
            FROM json_array_elements_text($1::json) x) d
        CROSS JOIN LATERAL (SELECT * FROM trigger_log t WHERE t.scheduled_action_id = d.id
            AND t.attempt IS NOT NULL ORDER BY t.id DESC LIMIT $2) l
        ORDER BY l.id",
};

/// Those of some attempts that are logged. `$1` rows {id, attempt}.
pub(in crate::store) const LOGGED_ATTEMPTS: Sql = Sql {
    sqlite: "SELECT l.scheduled_action_id, l.attempt, l.created_date
        FROM jsonb_each($1) r CROSS JOIN trigger_log l
            ON l.scheduled_action_id = unhex(r.value ->> 'id')
            AND l.attempt = r.value ->> 'attempt'",
    postgres: "SELECT l.scheduled_action_id, l.attempt, l.created_date
        FROM json_to_recordset($1::json) AS r(id uuid, attempt int)
        JOIN trigger_log l ON l.scheduled_action_id = r.id AND l.attempt = r.attempt",
};
