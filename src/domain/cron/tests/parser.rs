use crate::domain::cron::{CronError, Schedule};
use crate::error::Error;

use super::schedule;

fn refusal(expression: &str) -> CronError {
    match Schedule::parse(expression) {
        Err(error) => error,
        Ok(schedule) => panic!("`{expression}` was taken for: {}", schedule.describe()),
    }
}

/// Code, beginning of the message, and a part of it that helps.
const REFUSED: &[(&str, &str, &str, &str)] = &[
    ("", "CRON_FIELD_COUNT", "a cron expression has six fields, seconds first", "got 0"),
    ("   ", "CRON_FIELD_COUNT", "a cron", "got 0"),
    ("0 9 * * 1-5", "CRON_FIELD_COUNT", "a cron expression has six fields", "got 5; put `0 `"),
    ("0 0 9 * * * 2026", "CRON_FIELD_COUNT", "a cron", "got 7; a year is not supported"),
    ("0 0 9 * * * * *", "CRON_FIELD_COUNT", "a cron", "got 8"),
    ("0 0 9 * * # daily", "CRON_UNSUPPORTED", "comments", "six fields"),
    ("# 0 0 9 * * *", "CRON_UNSUPPORTED", "comments", "six fields"),
    ("0 0 9 * * 1 # Monday", "CRON_UNSUPPORTED", "comments", "six fields"),
    ("0 0 9 * * #", "CRON_UNSUPPORTED", "day of week", "comments"),
    ("@every 5m", "CRON_UNSUPPORTED", "`@every 5m` is not a shorthand", "@hourly, @daily"),
    ("@reboot", "CRON_UNSUPPORTED", "`@reboot` is not a shorthand", "@annually"),
    ("@Daily", "CRON_UNSUPPORTED", "`@Daily` is not", "@daily"),
    ("@", "CRON_UNSUPPORTED", "`@`", "@daily"),
    ("0 0 0 * * @daily", "CRON_SYNTAX", "day of week", "allowed is 0-6 or sun-sat"),
    ("TZ=UTC 0 0 9 * * *", "CRON_UNSUPPORTED", "a time zone has no place", "timeZone"),
    ("CRON_TZ=Asia/Tokyo 0 0 9 * * *", "CRON_UNSUPPORTED", "a time zone", "timeZone"),
    ("60 * * * * *", "CRON_OUT_OF_RANGE", "second: `60`", "allowed is 0-59"),
    ("0 60 * * * *", "CRON_OUT_OF_RANGE", "minute: `60`", "allowed is 0-59"),
    ("0 0 24 * * *", "CRON_OUT_OF_RANGE", "hour: `24`", "midnight is written 0; allowed is 0-23"),
    ("0 0 0 0 * *", "CRON_OUT_OF_RANGE", "day of month: `0`", "allowed is 1-31"),
    ("0 0 0 32 * *", "CRON_OUT_OF_RANGE", "day of month: `32`", "allowed is 1-31"),
    ("0 0 0 1 0 *", "CRON_OUT_OF_RANGE", "month: `0`", "allowed is 1-12 or jan-dec"),
    ("0 0 0 1 13 *", "CRON_OUT_OF_RANGE", "month: `13`", "allowed is 1-12"),
    ("0 0 0 * * 7", "CRON_OUT_OF_RANGE", "day of week: `7`", "Sunday is written 0"),
    ("0 0 0 * * 5-7", "CRON_OUT_OF_RANGE", "day of week: `7`", "Sunday is written 0"),
    ("0 99999999999999999999 * * * *", "CRON_OUT_OF_RANGE", "minute: `9999", "allowed is 0-59"),
    ("0 0-99 * * * *", "CRON_OUT_OF_RANGE", "minute: `99`", "allowed is 0-59"),
    ("*/0 * * * * *", "CRON_OUT_OF_RANGE", "second: the step of `*/0` is 0", "1 or more"),
    ("0 0 17-9 * * *", "CRON_REVERSED_RANGE", "hour: the range `17-9`", "`17-23,0-9`"),
    ("0 0 9 * * fri-sun", "CRON_REVERSED_RANGE", "day of week: the range", "`5-6,0`"),
    ("0 0 9 * nov-feb *", "CRON_REVERSED_RANGE", "month: the range", "`11-12,1-2`"),
    (", * * * * *", "CRON_SYNTAX", "second: an item of the list is empty", "between commas"),
    ("0 1,,2 * * * *", "CRON_SYNTAX", "minute: an item", "empty"),
    ("0 1, * * * *", "CRON_SYNTAX", "minute: an item", "empty"),
    ("0 0 1,2 , * *", "CRON_SYNTAX", "day of month: an item", "empty"),
    ("0 5* * * * *", "CRON_SYNTAX", "minute: `5*` mixes `*`", "stands alone"),
    ("0 *5 * * * *", "CRON_SYNTAX", "minute: `*5` mixes `*`", "stands alone"),
    ("0 ** * * * *", "CRON_SYNTAX", "minute: `**` mixes `*`", "stands alone"),
    ("0 *-5 * * * *", "CRON_SYNTAX", "minute: `*` mixes", "stands alone"),
    ("0 -5 * * * *", "CRON_SYNTAX", "minute: `-5` has a sign", "without one"),
    ("0 +5 * * * *", "CRON_SYNTAX", "minute: `+5` has a sign", "without one"),
    ("0 1--3 * * * *", "CRON_SYNTAX", "minute: `-3` has a sign", "without one"),
    ("0 5- * * * *", "CRON_SYNTAX", "minute: a value is missing", "`-`"),
    ("0 - * * * *", "CRON_SYNTAX", "minute: `-` has a sign", "whole numbers"),
    ("0 1-2-3 * * * *", "CRON_SYNTAX", "minute: `2-3` is not a value", "allowed is 0-59"),
    ("0 /5 * * * *", "CRON_SYNTAX", "minute: a value is missing", "`/`"),
    ("0 */ * * * *", "CRON_SYNTAX", "minute: the step of `*/`", "`/n`"),
    ("0 */+5 * * * *", "CRON_SYNTAX", "minute: the step of `*/+5`", "`/n`"),
    ("0 */-5 * * * *", "CRON_SYNTAX", "minute: the step of `*/-5`", "`/n`"),
    ("0 */2/3 * * * *", "CRON_SYNTAX", "minute: the step of `*/2/3`", "once"),
    ("0 */1.5 * * * *", "CRON_SYNTAX", "minute: the step", "whole number"),
    ("0 1.5 * * * *", "CRON_SYNTAX", "minute: `1.5` is not a value", "allowed is 0-59"),
    ("0 0x10 * * * *", "CRON_SYNTAX", "minute: `0x10` is not a value", "0-59"),
    ("0 0 9 * * jan", "CRON_SYNTAX", "day of week: `jan` is a name", "month field"),
    ("0 0 9 * mon *", "CRON_SYNTAX", "month: `mon` is a name", "day of week field"),
    ("0 0 mon * * *", "CRON_SYNTAX", "hour: `mon` is a name", "day of week field"),
    ("0 0 9 * * monday", "CRON_SYNTAX", "day of week: `monday` is not a name", "write `mon`"),
    ("0 0 9 * * mo", "CRON_SYNTAX", "day of week: `mo` is not a value", "sun-sat"),
    ("0 0 9 * * */mon", "CRON_SYNTAX", "day of week: the step", "whole number"),
    ("? * * * * *", "CRON_UNSUPPORTED", "second: `?`", "write `*`"),
    ("0 0 ?/2 * * *", "CRON_UNSUPPORTED", "hour: `?`", "write `*`"),
    ("0 0 0 1 ? *", "CRON_UNSUPPORTED", "month: `?`", "write `*`"),
    ("0 0 0 L * *", "CRON_UNSUPPORTED", "day of month: `L`", "not supported"),
    ("0 0 0 L-3 * *", "CRON_UNSUPPORTED", "day of month: `L`", "not supported"),
    ("0 0 0 LW * *", "CRON_UNSUPPORTED", "day of month: `LW`", "not supported"),
    ("0 0 0 15W * *", "CRON_UNSUPPORTED", "day of month: `15W`", "not supported"),
    ("0 0 0 * * 5L", "CRON_UNSUPPORTED", "day of week: `5L`", "not supported"),
    ("0 0 0 * * 5#2", "CRON_UNSUPPORTED", "day of week: `5#2`", "nth weekday"),
    ("0 H * * * *", "CRON_UNSUPPORTED", "minute: `H`", "not supported"),
    ("0 H/15 * * * *", "CRON_UNSUPPORTED", "minute: `H`", "not supported"),
    ("0 H(0-29) * * * *", "CRON_UNSUPPORTED", "minute: `H(0`", "not supported"),
    ("0 0 9 * * 1\u{2013}5", "CRON_SYNTAX", "`\u{2013}` is not an ASCII character", "none other"),
    ("0 0\u{a0}9 * * *", "CRON_SYNTAX", "`\\u{a0}` is not an ASCII", "none other"),
    ("0 0 9 * * \u{661}", "CRON_SYNTAX", "`\u{661}` is not an ASCII", "none other"),
    ("0 \0 9 * * *", "CRON_SYNTAX", "minute: `\\0` is not a value", "0-59"),
    ("0 0 0 30 2 *", "CRON_NEVER_FIRES", "day of month", "never fires"),
    ("0 0 0 30,31 feb *", "CRON_NEVER_FIRES", "day of month", "never fires"),
    ("0 0 0 31 4,6,9,11 *", "CRON_NEVER_FIRES", "day of month", "never fires"),
    ("0 0 0 31 2-2,4 ?", "CRON_NEVER_FIRES", "day of month", "never fires"),
];

#[test]
fn what_is_not_understood_is_refused_with_field_reason_and_remedy() {
    for (expression, code, start, part) in REFUSED {
        let error = refusal(expression);
        let CronError { code: got, field, message } = &error;
        assert_eq!((got, *field), (code, "cronExpression"), "{expression}: {message}");
        assert!(message.starts_with(start), "{expression}: {message}");
        assert!(message.contains(part), "{expression}: {message}");
    }
}

/// Pairs that mean the same.
const SAME: &[(&str, &str)] = &[
    ("@hourly", "0 0 * * * *"),
    ("@daily", "0 0 0 * * *"),
    ("@midnight", "0 0 0 * * *"),
    ("@weekly", "0 0 0 * * sun"),
    ("@monthly", "0 0 0 1 * *"),
    ("@yearly", "0 0 0 1 jan *"),
    ("@annually", "0 0 0 1 1 *"),
    ("  @daily\n", "0 0 0 * * *"),
    (" 0\t0  9 *\n* 1-5 ", "0 0 9 * * 1-5"),
    ("0 0 9 * * 1-5", "0 0 9 * * MON-Fri"),
    ("0 0 9 * * 1,2,3,4,5", "0 0 9 * * mon,tue,wed,thu,fri"),
    ("0 0 0 1 1-12 *", "0 0 0 1 JAN-dec *"),
    ("0 50/4 * * * *", "0 50,54,58 * * * *"),
    ("0 10-20/5 * * * *", "0 10,15,20 * * * *"),
    ("0 */25 * * * *", "0 0,25,50 * * * *"),
    ("0 0 0 * feb/4 *", "0 0 0 * 2,6,10 *"),
    ("0 0 0 1/10 * *", "0 0 0 1,11,21,31 * *"),
    ("0 0 0 ? * 1", "0 0 0 * * 1"),
    ("0 0 0 1 * ?", "0 0 0 1 * *"),
    ("0 0 0 ?/10 * *", "0 0 0 */10 * *"),
    ("0 0 0 */1 * 1", "0 0 0 * * 1"),
    ("0 0 0 * * 1,*", "0 0 0 * * *"),
    ("0 */99999999999 * * * *", "0 */60 * * * *"),
    ("00 05 007 01 * *", "0 5 7 1 * *"),
    ("0 5,5,1-5 * * * *", "0 1-5 * * * *"),
];

#[test]
fn two_spellings_have_the_same_sets() {
    for (left, right) in SAME {
        assert_eq!(schedule(left).calendar, schedule(right).calendar, "{left} and {right}");
    }
}

#[test]
fn only_a_star_in_the_time_fields_makes_a_rhythm() {
    for expression in ["0 0 9 * * *", "0 0,30 1-5 ? * *", "0/15 5 2 * * *", "@daily", "0 0 1 1 * 1"]
    {
        assert!(schedule(expression).fixed_time, "{expression}");
    }
    for expression in ["0 0 * * * *", "0 */5 9 * * *", "* 0 9 * * *", "0 1,* 9 * * *", "@hourly"] {
        assert!(!schedule(expression).fixed_time, "{expression}");
    }
}

#[test]
fn length_is_counted_before_anything_is_read() {
    let fill = |length: usize| format!("0 0{} 0 * * *", " ".repeat(length - 11));
    assert!(Schedule::parse(&fill(256)).is_ok());
    for long in [fill(257), ",".repeat(257), "\u{e9}".repeat(300), "@".repeat(1_000_000)] {
        let error = refusal(&long);
        assert_eq!(error.code, "CRON_TOO_LONG");
        assert!(error.message.contains("at most 256 characters"), "{}", error.message);
        assert!(error.message.len() < 200);
    }
}

#[test]
fn a_refusal_becomes_an_invalid_input_with_its_own_code() {
    let error = Error::from(refusal("0 0 0 * * 7"));
    assert_eq!(error.code(), "CRON_OUT_OF_RANGE");
    assert_eq!(error.field(), Some("cronExpression"));
    assert!(error.to_string().starts_with("day of week:"));
}
