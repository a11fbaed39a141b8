//! Statements of LINE Official Accounts, the users they know, audiences and workflows.

use super::Sql;

/// Makes users known; those that are known stay as they are, and those of an account that is gone
/// are left out. Answers how many became known. On PostgreSQL the accounts are held first, so that
/// whoever deletes one waits, or is waited for. `$1` rows {line_oa_id, user_id}, `$2` now.
pub(in crate::store) const SEE_USERS: Sql = Sql {
    sqlite: "INSERT INTO line_user (line_oa_id, user_id, organization_id, follow_state,
            attributes, created_at, updated_at)
        SELECT DISTINCT o.id, r.value ->> 'user_id', o.organization_id, 'unknown', '{}', $2, $2
        FROM jsonb_each($1) r JOIN line_oa o ON o.id = unhex(r.value ->> 'line_oa_id')
        WHERE true ON CONFLICT (line_oa_id, user_id) DO NOTHING",
    postgres: "WITH r AS (SELECT DISTINCT line_oa_id, user_id
            FROM json_to_recordset($1::json) AS r(line_oa_id uuid, user_id text)),
        held AS MATERIALIZED (SELECT id, organization_id FROM line_oa
            WHERE id = ANY (ARRAY(SELECT line_oa_id FROM r)) ORDER BY id FOR KEY SHARE)
        INSERT INTO line_user (line_oa_id, user_id, organization_id, follow_state, attributes,
            created_at, updated_at)
        SELECT h.id, r.user_id, h.organization_id, 'unknown', '{}'::jsonb, $2::timestamptz,
            $2::timestamptz
        FROM r JOIN held h ON h.id = r.line_oa_id ORDER BY h.id, r.user_id
        ON CONFLICT (line_oa_id, user_id) DO NOTHING",
};

/// Users by their keys. `$1` rows {line_oa_id, user_id}.
pub(in crate::store) const USERS_BY_IDS: Sql = Sql {
    sqlite:
        "SELECT u.* FROM jsonb_each($1) r CROSS JOIN line_user u
            ON u.line_oa_id = unhex(r.value ->> 'line_oa_id') AND u.user_id = r.value ->> 'user_id'",
    postgres: "SELECT u.* FROM json_to_recordset($1::json) AS r(line_oa_id uuid, user_id text)
        JOIN line_user u ON u.line_oa_id = r.line_oa_id AND u.user_id = r.user_id",
};

/// Puts users into audiences of their account; those that are in one stay as they are, and
/// audiences that are gone are left out. Answers how many rows are new. `$1` rows {audience_id,
/// line_oa_id, user_id}, `$2` now.
pub(in crate::store) const ADD_MEMBERS: Sql = Sql {
    sqlite: "INSERT INTO audience_member (audience_id, user_id, line_oa_id, added_at)
        SELECT DISTINCT a.id, r.value ->> 'user_id', a.line_oa_id, $2
        FROM jsonb_each($1) r JOIN audience a ON a.id = unhex(r.value ->> 'audience_id')
            AND a.line_oa_id = unhex(r.value ->> 'line_oa_id')
        WHERE true ON CONFLICT (audience_id, user_id) DO NOTHING",
    postgres: "WITH r AS (SELECT DISTINCT audience_id, line_oa_id, user_id
            FROM json_to_recordset($1::json)
                AS r(audience_id uuid, line_oa_id uuid, user_id text)),
        held AS MATERIALIZED (SELECT id, line_oa_id FROM audience
            WHERE id = ANY (ARRAY(SELECT audience_id FROM r)) ORDER BY id FOR KEY SHARE)
        INSERT INTO audience_member (audience_id, user_id, line_oa_id, added_at)
        SELECT h.id, r.user_id, h.line_oa_id, $2::timestamptz
        FROM r JOIN held h ON h.id = r.audience_id AND h.line_oa_id = r.line_oa_id
        ORDER BY h.id, r.user_id
        ON CONFLICT (audience_id, user_id) DO NOTHING",
};

/// Takes users out of an audience. Answers how many were in it. `$1` audience, `$2` user ids.
pub(in crate::store) const REMOVE_MEMBERS: Sql = Sql {
    sqlite: "DELETE FROM audience_member
        WHERE audience_id = $1 AND user_id IN (SELECT value FROM jsonb_each($2))",
    postgres: "WITH held AS MATERIALIZED (SELECT user_id FROM audience_member
            WHERE audience_id = $1
                AND user_id = ANY (ARRAY(SELECT json_array_elements_text($2::json)))
            ORDER BY user_id FOR UPDATE)
        DELETE FROM audience_member m USING held h
        WHERE m.audience_id = $1 AND m.user_id = h.user_id",
};

/// Deletes the events of a LINE OA that nobody is evaluating. `$1` LINE OA.
pub(in crate::store) const DELETE_EVENTS: Sql = Sql {
    sqlite: "DELETE FROM event WHERE line_oa_id = $1",
    postgres: "DELETE FROM event WHERE id IN (
        SELECT id FROM event WHERE line_oa_id = $1 ORDER BY id FOR UPDATE SKIP LOCKED)",
};
