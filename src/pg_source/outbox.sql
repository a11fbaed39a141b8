CREATE SCHEMA IF NOT EXISTS trigger_manager;
REVOKE ALL ON SCHEMA trigger_manager FROM PUBLIC;

-- Events that the trigger manager has not stored yet. It deletes what it has stored.
CREATE TABLE IF NOT EXISTS trigger_manager.outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id uuid NOT NULL DEFAULT gen_random_uuid(),
    type text NOT NULL CHECK (char_length(type) BETWEEN 1 AND 100),
    line_oa_id uuid,
    user_id text,
    occurred_at timestamptz NOT NULL DEFAULT now()
        CHECK (occurred_at BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 00:00:00+00'),
    payload jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Rows that can't be events, each with the reason. The newest 10,000 are kept.
CREATE TABLE IF NOT EXISTS trigger_manager.outbox_refused (
    refused_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id bigint NOT NULL,
    event_id uuid NOT NULL,
    type text NOT NULL,
    line_oa_id uuid,
    user_id text,
    occurred_at timestamptz NOT NULL,
    payload jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    reason text NOT NULL,
    refused_at timestamptz NOT NULL DEFAULT now()
);
REVOKE ALL ON trigger_manager.outbox, trigger_manager.outbox_refused FROM PUBLIC;

-- Writes the events of one changed row. The settings of its trigger are one JSON argument.
-- It runs with the rights of whoever installed it, so that those who write to the table need none
-- here, and turns every error of its own into a warning: the row's own change goes through.
CREATE OR REPLACE FUNCTION trigger_manager.capture() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $capture$
DECLARE
    settings jsonb;
    kind text;
    new_row jsonb;
    old_row jsonb := '{}';
    line_oa uuid;
    line_oa_text text;
    person text;
    body jsonb;
    primary_key text[];
    made bigint;
    made_all bigint[] := '{}';
BEGIN
    BEGIN
        settings := TG_ARGV[0]::jsonb;
        kind := settings ->> 'type';
        new_row := to_jsonb(NEW);
        IF TG_OP = 'UPDATE' THEN
            old_row := to_jsonb(OLD);
            IF new_row = old_row THEN
                RETURN NULL;
            END IF;
        END IF;
        IF NOT new_row ?& ARRAY(SELECT jsonb_array_elements_text(settings -> 'columns')) THEN
            RAISE EXCEPTION 'the table lacks one of the columns %', settings -> 'columns';
        END IF;
        person := new_row ->> (settings ->> 'userColumn');
        IF person IS NULL OR person = '' THEN
            RETURN NULL;
        END IF;
        line_oa_text := coalesce(settings ->> 'lineOaId', new_row ->> (settings ->> 'lineOaColumn'));
        IF line_oa_text ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN
            line_oa := line_oa_text::uuid;
        END IF;

        IF kind = 'attribute_changed' THEN
            IF NOT settings ? 'attributes' THEN
                primary_key := ARRAY(
                    SELECT a.attname::text
                    FROM pg_index AS i
                    JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
                    WHERE i.indrelid = TG_RELID AND i.indisprimary
                );
            END IF;
            FOR made IN
                INSERT INTO trigger_manager.outbox (type, line_oa_id, user_id, occurred_at, payload)
                SELECT kind, line_oa, person, clock_timestamp(), jsonb_build_object(
                    'attribute', c.key,
                    'oldValue', coalesce(old_row -> c.key, 'null'),
                    'newValue', c.value)
                FROM jsonb_each(new_row) AS c
                WHERE c.value <> coalesce(old_row -> c.key, 'null')
                    AND CASE WHEN settings ? 'attributes' THEN settings -> 'attributes' ? c.key
                        ELSE NOT settings -> 'columns' ? c.key AND c.key <> ALL (primary_key) END
                RETURNING id
            LOOP
                made_all := made_all || made;
            END LOOP;
        ELSE
            IF settings ? 'map' THEN
                IF TG_OP = 'UPDATE' AND NOT EXISTS (
                    SELECT FROM jsonb_array_elements_text(settings -> 'columns') AS c (name)
                    WHERE new_row -> c.name IS DISTINCT FROM old_row -> c.name
                ) THEN
                    RETURN NULL;
                END IF;
                SELECT jsonb_object_agg(m.key, new_row -> m.value) INTO body
                FROM jsonb_each_text(settings -> 'map') AS m;
            ELSE
                body := new_row - ARRAY(SELECT jsonb_array_elements_text(settings -> 'columns'));
            END IF;
            INSERT INTO trigger_manager.outbox (type, line_oa_id, user_id, occurred_at, payload)
            VALUES (kind, line_oa, person, clock_timestamp(), body)
            RETURNING id INTO made;
            made_all := ARRAY[made];
        END IF;

        -- Only a hint, and only the id: a long payload would end the transaction. A queue that
        -- fills up, because some session listens and never ends its transaction, would end it too.
        IF settings ? 'notify' AND pg_notification_queue_usage() < 0.5 THEN
            FOREACH made IN ARRAY made_all LOOP
                PERFORM pg_notify(kind, made::text);
            END LOOP;
        END IF;
    EXCEPTION WHEN OTHERS THEN
        RAISE WARNING 'trigger_manager: a change of %.% made no event: % (%)',
            TG_TABLE_SCHEMA, TG_TABLE_NAME, SQLERRM, SQLSTATE;
    END;
    RETURN NULL;
END
$capture$;
REVOKE ALL ON FUNCTION trigger_manager.capture() FROM PUBLIC;
