//! Statements of the trigger rules: events in, rate control, cycles, and the work they queue.

use super::Sql;

/// Stores events; one that its LINE OA has already is left as it is. Answers the ids of those
/// stored. `$1` rows.
pub(in crate::store) const INSERT_EVENTS: Sql = Sql {
    sqlite: "INSERT INTO event (id, event_id, event_type, line_oa_id, organization_id, user_id,
            occurred_at, payload, subject, origin, status, received_at)
        SELECT unhex(value ->> 'id'), value ->> 'event_id', value ->> 'event_type',
            unhex(value ->> 'line_oa_id'), unhex(value ->> 'organization_id'),
            value ->> 'user_id', value ->> 'occurred_at', value -> 'payload',
            value ->> 'subject', value ->> 'origin', value ->> 'status', value ->> 'received_at'
        FROM jsonb_each($1) WHERE true
        ON CONFLICT (line_oa_id, event_id) DO NOTHING RETURNING id",
    postgres: "INSERT INTO event (id, event_id, event_type, line_oa_id, organization_id, user_id,
            occurred_at, payload, subject, origin, status, received_at)
        SELECT id, event_id, event_type, line_oa_id, organization_id, user_id, occurred_at,
            payload, subject, origin, status, received_at
        FROM json_to_recordset($1::json) AS r(id uuid, event_id text, event_type text,
            line_oa_id uuid, organization_id uuid, user_id text, occurred_at timestamptz,
            payload jsonb, subject text, origin text, status text, received_at timestamptz)
        ORDER BY line_oa_id, event_id
        ON CONFLICT (line_oa_id, event_id) DO NOTHING RETURNING id",
};

/// Events that are not evaluated yet, oldest first, held until the transaction ends; those that
/// another executor holds are left to it. `$1` how many.
pub(in crate::store) const PENDING_EVENTS: Sql = Sql {
    sqlite: "SELECT * FROM event WHERE status = 'pending' ORDER BY id LIMIT $1",
    postgres: "SELECT * FROM event WHERE status = 'pending' ORDER BY id LIMIT $1
        FOR UPDATE SKIP LOCKED",
};

/// Those events about whose subject a later one is stored; of those of one instant the last stored
/// is the later. `$1` rows {id, line_oa_id, subject, occurred_at}.
pub(in crate::store) const STALE_EVENTS: Sql = Sql {
    sqlite: "SELECT unhex(r.value ->> 'id') AS id FROM jsonb_each($1) r WHERE EXISTS (
            SELECT 1 FROM event e WHERE e.line_oa_id = unhex(r.value ->> 'line_oa_id')
                AND e.subject = r.value ->> 'subject'
                AND (e.occurred_at > r.value ->> 'occurred_at'
                    OR e.occurred_at = r.value ->> 'occurred_at'
                        AND e.id > unhex(r.value ->> 'id')))",
    postgres: "SELECT r.id FROM json_to_recordset($1::json)
            AS r(id uuid, line_oa_id uuid, subject text, occurred_at timestamptz)
        WHERE EXISTS (SELECT 1 FROM event e WHERE e.line_oa_id = r.line_oa_id
            AND e.subject = r.subject AND (e.occurred_at, e.id) > (r.occurred_at, r.id))",
};

/// Holds what has these names until the transaction ends, in one order. PostgreSQL only, where a lock
/// of this kind is given in the order of asking; locks of rows let those who share overtake those who
/// change. `$1` texts.
pub(in crate::store) const HOLD_NAMES: Sql = Sql {
    sqlite: "SELECT $1",
    postgres: "SELECT pg_advisory_xact_lock(held.k) FROM (
            SELECT DISTINCT hashtextextended(x, 0) AS k
            FROM json_array_elements_text($1::json) x ORDER BY k) held",
};

/// [`HOLD_NAMES`], shared with others who share.
pub(in crate::store) const SHARE_NAMES: Sql = Sql {
    sqlite: "SELECT $1",
    postgres: "SELECT pg_advisory_xact_lock_shared(held.k) FROM (
            SELECT DISTINCT hashtextextended(x, 0) AS k
            FROM json_array_elements_text($1::json) x ORDER BY k) held",
};

/// What evaluations came to. `$1` rows {id, status, matched, error}, `$2` now.
pub(in crate::store) const PROCESSED_EVENTS: Sql = Sql {
    sqlite: "UPDATE event SET status = r.value ->> 'status', matched = r.value ->> 'matched',
            error = r.value ->> 'error', processed_at = $2
        FROM jsonb_each($1) r WHERE event.id = unhex(r.value ->> 'id')",
    postgres: "UPDATE event e SET status = r.status, matched = r.matched, error = r.error,
            processed_at = $2
        FROM json_to_recordset($1::json) AS r(id uuid, status text, matched int, error text)
        WHERE e.id = r.id",
};

/// Takes the right to fire, for each pair of rule and user at most once, where nothing forbids it:
/// the last accepted firing is at least the pause old, and no work of the rule waits for the user.
/// Answers each pair as it is then: whoever finds its own `taken_by` may fire.
///
/// The row is the lock. Whoever comes second waits for the first and then sees the row as the first
/// left it, but of everything else what there was before: neither the work that the first one queued,
/// nor, on a look of its own (`seen`), its firing. A firing that it can't see so counts as work that
/// waits, since it has just been committed, however long ago it was accepted.
///
/// `$1` rows {trigger_rule_id, user_id, pause_ms, taken_by}, each pair once; `$2` now in
/// milliseconds.
pub(in crate::store) const TAKE_RATE: Sql = Sql {
    sqlite: "INSERT INTO rule_user_state AS s
            (trigger_rule_id, user_id, last_fired_ms, taken_by, pause_ms)
        SELECT r.trigger_rule_id, r.user_id, CASE WHEN NOT r.waits THEN $2 END,
            CASE WHEN NOT r.waits THEN r.taken_by END, r.pause_ms
        FROM (SELECT j.*, EXISTS (
                SELECT 1 FROM scheduled_action a WHERE a.user_id = j.user_id
                    AND a.trigger_rule_id = j.trigger_rule_id
                    AND a.status IN ('pending', 'processing')) AS waits
            FROM (SELECT unhex(value ->> 'trigger_rule_id') AS trigger_rule_id,
                    value ->> 'user_id' AS user_id, value ->> 'pause_ms' AS pause_ms,
                    unhex(value ->> 'taken_by') AS taken_by
                FROM jsonb_each($1)) j) r
        WHERE true
        ON CONFLICT (trigger_rule_id, user_id) DO UPDATE SET
            last_fired_ms = CASE WHEN excluded.taken_by IS NOT NULL AND (s.last_fired_ms IS NULL
                OR s.last_fired_ms + excluded.pause_ms <= $2) THEN $2 ELSE s.last_fired_ms END,
            taken_by = CASE WHEN excluded.taken_by IS NOT NULL AND (s.last_fired_ms IS NULL
                OR s.last_fired_ms + excluded.pause_ms <= $2)
                THEN excluded.taken_by ELSE s.taken_by END,
            pause_ms = excluded.pause_ms
        RETURNING trigger_rule_id, user_id, last_fired_ms, taken_by",
    postgres: "INSERT INTO rule_user_state AS s
            (trigger_rule_id, user_id, last_fired_ms, taken_by, pause_ms)
        SELECT r.trigger_rule_id, r.user_id, CASE WHEN NOT r.waits THEN $2::bigint END,
            CASE WHEN NOT r.waits THEN r.taken_by END, r.pause_ms
        FROM (SELECT j.*, EXISTS (
                SELECT 1 FROM scheduled_action a WHERE a.user_id = j.user_id
                    AND a.trigger_rule_id = j.trigger_rule_id
                    AND a.status IN ('pending', 'processing')) AS waits
            FROM json_to_recordset($1::json) AS j(trigger_rule_id uuid, user_id text,
                pause_ms bigint, taken_by uuid)) r
        ORDER BY r.trigger_rule_id, r.user_id
        ON CONFLICT (trigger_rule_id, user_id) DO UPDATE SET
            (last_fired_ms, taken_by) = (
                SELECT CASE WHEN may.fire THEN $2 ELSE s.last_fired_ms END,
                    CASE WHEN may.fire THEN excluded.taken_by ELSE s.taken_by END
                FROM (SELECT CASE
                        WHEN excluded.taken_by IS NULL THEN false
                        WHEN s.last_fired_ms + excluded.pause_ms > $2 THEN false
                        ELSE s.taken_by IS NOT DISTINCT FROM (
                            SELECT seen.taken_by FROM rule_user_state seen
                            WHERE seen.trigger_rule_id = s.trigger_rule_id
                                AND seen.user_id = s.user_id)
                    END AS fire) may),
            pause_ms = excluded.pause_ms
        RETURNING s.trigger_rule_id, s.user_id, s.last_fired_ms, s.taken_by",
};

/// Queues work; what has a `dedupe` that is there already is left out. Answers the ids of what
/// was queued. `$1` rows.
pub(in crate::store) const INSERT_ACTIONS: Sql = Sql {
    sqlite: "INSERT INTO scheduled_action (id, parent_id, trigger_rule_id, user_id, action_type,
            action_config, source_type, source_config, execute_at, expires_at, status,
            workflow_id, workflow_node_path, application_id, organization_id, line_oa_id, lane,
            dedupe, event_id, subject, created_at, updated_at)
        SELECT unhex(value ->> 'id'), unhex(value ->> 'parent_id'),
            unhex(value ->> 'trigger_rule_id'), value ->> 'user_id', value ->> 'action_type',
            value -> 'action_config', value ->> 'source_type',
            nullif(value -> 'source_config', 'null'), value ->> 'execute_at',
            value ->> 'expires_at', 'pending', unhex(value ->> 'workflow_id'),
            value ->> 'workflow_node_path', unhex(value ->> 'application_id'),
            unhex(value ->> 'organization_id'), unhex(value ->> 'line_oa_id'),
            unhex(value ->> 'lane'), value ->> 'dedupe', unhex(value ->> 'event_id'),
            value ->> 'subject', value ->> 'created_at', value ->> 'created_at'
        FROM jsonb_each($1) WHERE true
        ON CONFLICT (dedupe) WHERE dedupe IS NOT NULL DO NOTHING RETURNING id",
    postgres: "INSERT INTO scheduled_action (id, parent_id, trigger_rule_id, user_id, action_type,
            action_config, source_type, source_config, execute_at, expires_at, status,
            workflow_id, workflow_node_path, application_id, organization_id, line_oa_id, lane,
            dedupe, event_id, subject, created_at, updated_at)
        SELECT id, parent_id, trigger_rule_id, user_id, action_type, action_config, source_type,
            source_config, execute_at, expires_at, 'pending', workflow_id, workflow_node_path,
            application_id, organization_id, line_oa_id, lane, dedupe, event_id, subject,
            created_at, created_at
        FROM json_to_recordset($1::json) AS r(id uuid, parent_id uuid, trigger_rule_id uuid,
            user_id text, action_type text, action_config jsonb, source_type text,
            source_config jsonb, execute_at timestamptz, expires_at timestamptz,
            workflow_id uuid, workflow_node_path text, application_id uuid,
            organization_id uuid, line_oa_id uuid, lane uuid, dedupe text, event_id uuid,
            subject text, created_at timestamptz)
        ORDER BY dedupe
        ON CONFLICT (dedupe) WHERE dedupe IS NOT NULL DO NOTHING RETURNING id",
};

/// Queues the firings of rules as they stand, which the transaction holds. `$1` rows {id,
/// trigger_rule_id, user_id, action_config, execute_at, expires_at, application_id, event_id,
/// subject}, `$2` now.
pub(in crate::store) const QUEUE_FIRINGS: Sql = Sql {
    sqlite: "INSERT INTO scheduled_action (id, trigger_rule_id, user_id, action_type,
            action_config, source_type, source_config, execute_at, expires_at, status,
            workflow_id, workflow_node_path, application_id, organization_id, line_oa_id, lane,
            event_id, subject, created_at, updated_at)
        SELECT unhex(r.value ->> 'id'), t.id, r.value ->> 'user_id', t.action_type,
            r.value -> 'action_config', t.source_type, t.source_config, r.value ->> 'execute_at',
            r.value ->> 'expires_at', 'pending', t.workflow_id, t.workflow_node_path,
            unhex(r.value ->> 'application_id'), t.organization_id, t.line_oa_id,
            coalesce(unhex(r.value ->> 'application_id'), t.line_oa_id),
            unhex(r.value ->> 'event_id'), r.value ->> 'subject', $2, $2
        FROM jsonb_each($1) r
            JOIN trigger_rule t ON t.id = unhex(r.value ->> 'trigger_rule_id')",
    postgres: "INSERT INTO scheduled_action (id, trigger_rule_id, user_id, action_type,
            action_config, source_type, source_config, execute_at, expires_at, status,
            workflow_id, workflow_node_path, application_id, organization_id, line_oa_id, lane,
            event_id, subject, created_at, updated_at)
        SELECT r.id, t.id, r.user_id, t.action_type, r.action_config, t.source_type,
            t.source_config, r.execute_at, r.expires_at, 'pending', t.workflow_id,
            t.workflow_node_path, r.application_id, t.organization_id, t.line_oa_id,
            coalesce(r.application_id, t.line_oa_id), r.event_id, r.subject, $2, $2
        FROM json_to_recordset($1::json) AS r(id uuid, trigger_rule_id uuid, user_id text,
                action_config jsonb, execute_at timestamptz, expires_at timestamptz,
                application_id uuid, event_id uuid, subject text)
            JOIN trigger_rule t ON t.id = r.trigger_rule_id",
};

/// Writes that work was queued into the trigger log, as the work says. `$1` ids; `$2` the audience
/// that was walked and `$3` the walk's cycle, null when events were evaluated; `$4` now.
pub(in crate::store) const LOG_QUEUED: Sql = Sql {
    sqlite: "INSERT INTO trigger_log (trigger_on, trigger_rule_id, audience_id, user_id,
            action_type, action_config, status, scheduled_action_id, event_id, application_id,
            organization_id, line_oa_id, created_date)
        SELECT a.source_type, a.trigger_rule_id, $2, a.user_id, a.action_type, a.action_config,
            'queued', a.id, coalesce(a.event_id, $3), a.application_id, a.organization_id,
            a.line_oa_id, $4
        FROM json_each($1) r JOIN scheduled_action a ON a.id = unhex(r.value)",
    postgres: "INSERT INTO trigger_log (trigger_on, trigger_rule_id, audience_id, user_id,
            action_type, action_config, status, scheduled_action_id, event_id, application_id,
            organization_id, line_oa_id, created_date)
        SELECT a.source_type, a.trigger_rule_id, $2, a.user_id, a.action_type, a.action_config,
            'queued', a.id, coalesce(a.event_id, $3), a.application_id, a.organization_id,
            a.line_oa_id, $4
        FROM json_array_elements_text($1::json) x JOIN scheduled_action a ON a.id = x::uuid",
};

/// Gives calls their first backend. `$1` rows {id, backend_id}, `$2` now.
pub(in crate::store) const ADDRESS_ACTIONS: Sql = Sql {
    sqlite: "UPDATE scheduled_action SET backend_id = unhex(r.value ->> 'backend_id'),
            lane = unhex(r.value ->> 'backend_id'), updated_at = $2
        FROM jsonb_each($1) r WHERE scheduled_action.id = unhex(r.value ->> 'id')",
    postgres: "UPDATE scheduled_action a SET backend_id = r.backend_id, lane = r.backend_id,
            updated_at = $2
        FROM json_to_recordset($1::json) AS r(id uuid, backend_id uuid) WHERE a.id = r.id",
};

/// Copies calls for their other backends. `$1` rows {id, parent_id, backend_id}, `$2` now.
pub(in crate::store) const COPY_ACTIONS: Sql = Sql {
    sqlite: "INSERT INTO scheduled_action (id, parent_id, trigger_rule_id, user_id, action_type,
            action_config, source_type, source_config, execute_at, expires_at, status,
            workflow_id, workflow_node_path, application_id, organization_id, line_oa_id,
            backend_id, lane, event_id, subject, created_at, updated_at)
        SELECT unhex(r.value ->> 'id'), a.id, a.trigger_rule_id, a.user_id, a.action_type,
            a.action_config, a.source_type, a.source_config, a.execute_at, a.expires_at,
            'pending', a.workflow_id, a.workflow_node_path, a.application_id,
            a.organization_id, a.line_oa_id, unhex(r.value ->> 'backend_id'),
            unhex(r.value ->> 'backend_id'), a.event_id, a.subject, $2, $2
        FROM jsonb_each($1) r JOIN scheduled_action a ON a.id = unhex(r.value ->> 'parent_id')",
    postgres: "INSERT INTO scheduled_action (id, parent_id, trigger_rule_id, user_id, action_type,
            action_config, source_type, source_config, execute_at, expires_at, status,
            workflow_id, workflow_node_path, application_id, organization_id, line_oa_id,
            backend_id, lane, event_id, subject, created_at, updated_at)
        SELECT r.id, a.id, a.trigger_rule_id, a.user_id, a.action_type, a.action_config,
            a.source_type, a.source_config, a.execute_at, a.expires_at, 'pending',
            a.workflow_id, a.workflow_node_path, a.application_id, a.organization_id,
            a.line_oa_id, r.backend_id, r.backend_id, a.event_id, a.subject, $2, $2
        FROM json_to_recordset($1::json) AS r(id uuid, parent_id uuid, backend_id uuid)
            JOIN scheduled_action a ON a.id = r.parent_id",
};

/// Cancels open work about subjects of which a later event has come; work whose event is kept no more
/// is older. Answers of which rules, subjects and users, and whether it was never attempted. `$1` rows {line_oa_id, subject, occurred_at}, `$2` now.
pub(in crate::store) const SUPERSEDE_ACTIONS: Sql = Sql {
    sqlite: "UPDATE scheduled_action SET status = 'cancelled', last_error = 'superseded',
            retry_count = retry_count + (CASE status WHEN 'processing' THEN 1 ELSE 0 END),
            lease_token = NULL, executed_at = $2, updated_at = $2
        WHERE status IN ('pending', 'processing') AND id IN (
            SELECT a.id FROM jsonb_each($1) r
                JOIN scheduled_action a ON a.line_oa_id = unhex(r.value ->> 'line_oa_id')
                    AND a.subject = r.value ->> 'subject'
                    AND a.status IN ('pending', 'processing')
                LEFT JOIN event e ON e.id = a.event_id
            WHERE e.id IS NULL OR e.occurred_at <= r.value ->> 'occurred_at')
        RETURNING trigger_rule_id, subject, user_id, retry_count = 0 AS fresh",
    postgres: "WITH held AS MATERIALIZED (
            SELECT a.id FROM json_to_recordset($1::json)
                    AS r(line_oa_id uuid, subject text, occurred_at timestamptz)
                JOIN scheduled_action a ON a.line_oa_id = r.line_oa_id
                    AND a.subject = r.subject AND a.status IN ('pending', 'processing')
                LEFT JOIN event e ON e.id = a.event_id
            WHERE e.id IS NULL OR e.occurred_at <= r.occurred_at ORDER BY a.id FOR UPDATE OF a)
        UPDATE scheduled_action a SET status = 'cancelled', last_error = 'superseded',
            retry_count = a.retry_count + (CASE a.status WHEN 'processing' THEN 1 ELSE 0 END),
            lease_token = NULL, executed_at = $2, updated_at = $2
        FROM held h WHERE a.id = h.id AND a.status IN ('pending', 'processing')
        RETURNING a.trigger_rule_id, a.subject, a.user_id,
            a.retry_count = 0 AS fresh",
};

/// The time-based rules that are due, earliest first, held until the transaction ends. `$1` now,
/// `$2` how many.
pub(in crate::store) const DUE_RULES: Sql = Sql {
    sqlite: "SELECT * FROM trigger_rule WHERE next_fire_at <= $1 ORDER BY next_fire_at LIMIT $2",
    postgres: "SELECT * FROM trigger_rule WHERE next_fire_at <= $1 ORDER BY next_fire_at LIMIT $2
        FOR UPDATE SKIP LOCKED",
};

/// Moves the windows of rules. `$1` rows {id, evaluated_at, next_fire_at}.
pub(in crate::store) const MOVE_RULES: Sql = Sql {
    sqlite: "UPDATE trigger_rule SET evaluated_at = r.value ->> 'evaluated_at',
            next_fire_at = r.value ->> 'next_fire_at'
        FROM jsonb_each($1) r WHERE trigger_rule.id = unhex(r.value ->> 'id')",
    postgres: "UPDATE trigger_rule t SET evaluated_at = r.evaluated_at,
            next_fire_at = r.next_fire_at
        FROM json_to_recordset($1::json)
            AS r(id uuid, evaluated_at timestamptz, next_fire_at timestamptz)
        WHERE t.id = r.id",
};

/// The oldest cycle that is being walked and is younger than `$1`, held until the transaction ends;
/// one that another executor holds is left to it.
pub(in crate::store) const NEXT_CYCLE: Sql = Sql {
    sqlite: "SELECT * FROM scheduled_trigger_execution WHERE status = 'processing'
        AND id > $1 ORDER BY id LIMIT 1",
    postgres: "SELECT * FROM scheduled_trigger_execution WHERE status = 'processing'
        AND id > $1 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
};

/// What waits because of rules and workflows: actions by type and since when the oldest due one
/// is due, and under the type `event` the events. `$1` now.
pub(in crate::store) const RULES_WAITING: Sql = Sql {
    sqlite: "SELECT action_type AS name, count(*) AS n,
            min(CASE WHEN execute_at <= $1 THEN execute_at END) AS oldest
        FROM scheduled_action WHERE status = 'pending' AND trigger_id IS NULL
        GROUP BY action_type
        UNION ALL SELECT 'event', count(*), min(received_at) FROM event WHERE status = 'pending'",
    postgres: "SELECT action_type AS name, count(*) AS n,
            min(CASE WHEN execute_at <= $1 THEN execute_at END) AS oldest
        FROM scheduled_action WHERE status = 'pending' AND trigger_id IS NULL
        GROUP BY action_type
        UNION ALL SELECT 'event', count(*), min(received_at) FROM event WHERE status = 'pending'",
};
