//! The heart of scheduling: which due times of a trigger fire now, and which are recorded as
//! skipped, so that every due time of the calendar ends up in the ledger.
//!
//! A trigger stores how far it has been evaluated. A pass takes every due time in
//! (evaluated, now], whoever ran the pass before and however long ago: nothing is lost between
//! two passes, over a restart, or when another executor takes over.

use chrono::{DateTime, Duration, Utc};

use super::cron::{Schedule, Zone};
use super::trigger::{CatchUp, SkipReason, Trigger};

/// The most due times that one evaluation counts; a longer window is taken in parts.
pub const COUNTED_MAX: usize = 100_000;

/// How far the clocks of two processes may differ.
const AHEAD_MAX: Duration = Duration::seconds(10);

/// Where the window of a schedule begins that was evaluated up to `evaluated_at` and is changed at `now`.
/// An executor whose clock is ahead has been further: nothing is evaluated twice.
pub fn begin_anew(evaluated_at: DateTime<Utc>, now: DateTime<Utc>) -> DateTime<Utc> {
    now.max(evaluated_at.min(now + AHEAD_MAX))
}

/// The limits of an evaluation.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Due times that are older are recorded, not fired.
    pub catch_up_window: Duration,
    /// How many due times of one window are fired; the first ones.
    pub per_window: usize,
    /// A due time that is older was missed: no executor ran, or none in time.
    pub on_time: Duration,
}

/// A run of due times that are not fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skipped {
    /// Why.
    pub reason: SkipReason,
    /// The first.
    pub first: DateTime<Utc>,
    /// The last.
    pub last: DateTime<Utc>,
    /// How many.
    pub count: usize,
}

/// What an evaluation came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluation {
    /// The due times to fire, earliest first.
    pub fire: Vec<DateTime<Utc>>,
    /// The due times that are recorded only. No run shares a due time with another or with
    /// `fire`.
    pub skipped: Vec<Skipped>,
    /// Up to where the trigger is now evaluated.
    pub evaluated_at: DateTime<Utc>,
    /// The first due time after that.
    pub next_fire_at: Option<DateTime<Utc>>,
}

impl Evaluation {
    /// How many due times it came to.
    pub fn due_times(&self) -> usize {
        self.fire.len() + self.skipped.iter().map(|run| run.count).sum::<usize>()
    }
}

/// Evaluates `trigger` up to `now`. With a clock that was set back, `now` before the window's
/// start, nothing is due and the window stays.
pub fn evaluate(
    trigger: &Trigger,
    schedule: (&Schedule, &Zone),
    now: DateTime<Utc>,
    limits: &Limits,
) -> Evaluation {
    evaluate_from((trigger.evaluated_at, trigger.catch_up), schedule, now, limits)
}

/// Evaluates any schedule that was evaluated up to a time, as [`evaluate`] does.
pub fn evaluate_from(
    (since, catch_up): (DateTime<Utc>, CatchUp),
    (schedule, zone): (&Schedule, &Zone),
    now: DateTime<Utc>,
    limits: &Limits,
) -> Evaluation {
    let due: Vec<_> = schedule.between(zone, since, now).take(COUNTED_MAX).collect();
    let evaluated_at = match due.last() {
        Some(last) if due.len() == COUNTED_MAX => *last,
        _ => now.max(since),
    };
    let next_fire_at = schedule.next(zone, evaluated_at);
    let is_part = next_fire_at.is_some_and(|next| next <= now);
    let (fire, skipped) = sort_out((&due, is_part), catch_up, now, limits);
    Evaluation { fire, skipped, evaluated_at, next_fire_at }
}

/// Of a part of a window, whose other due times are later, no missed one is the last.
fn sort_out(
    (due, is_part): (&[DateTime<Utc>], bool),
    catch_up: CatchUp,
    now: DateTime<Utc>,
    limits: &Limits,
) -> (Vec<DateTime<Utc>>, Vec<Skipped>) {
    let (old, recent) = due.split_at(due.partition_point(|at| *at < now - limits.catch_up_window));
    let missed = recent.partition_point(|at| *at < now - limits.on_time);
    let left_out = match catch_up {
        CatchUp::All => 0,
        CatchUp::Last if is_part => missed,
        CatchUp::Last => missed.min(recent.len().saturating_sub(1)),
        CatchUp::None => missed,
    };
    let (left_out, wanted) = recent.split_at(left_out);
    let (fire, over) = wanted.split_at(wanted.len().min(limits.per_window));
    let runs = [
        (SkipReason::CatchUpWindow, old),
        (SkipReason::CatchUpPolicy, left_out),
        (SkipReason::WindowCap, over),
    ];
    (fire.to_vec(), runs.into_iter().filter_map(|(reason, run)| skipped(reason, run)).collect())
}

fn skipped(reason: SkipReason, run: &[DateTime<Utc>]) -> Option<Skipped> {
    let (first, last) = (*run.first()?, *run.last()?);
    Some(Skipped { reason, first, last, count: run.len() })
}

#[cfg(test)]
mod tests {
    use chrono::TimeZone;
    use proptest::prelude::*;

    use super::*;
    use crate::domain::id::{ApplicationId, TriggerId};

    const LIMITS: Limits = Limits {
        catch_up_window: Duration::hours(1),
        per_window: 60,
        on_time: Duration::seconds(60),
    };

    fn at(seconds: i64) -> DateTime<Utc> {
        Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap() + Duration::seconds(seconds)
    }

    fn trigger(catch_up: CatchUp) -> Trigger {
        Trigger {
            id: TriggerId::new(),
            application_id: ApplicationId::new(),
            name: "t".into(),
            description: String::new(),
            run_key: "k".into(),
            cron_expression: String::new(),
            time_zone: None,
            enabled: true,
            catch_up,
            evaluated_at: at(0),
            next_fire_at: None,
            created_at: at(0),
            updated_at: at(0),
        }
    }

    fn run(expression: &str, catch_up: CatchUp, now: DateTime<Utc>) -> Evaluation {
        let schedule = Schedule::parse(expression).unwrap();
        evaluate(&trigger(catch_up), (&schedule, &Zone::utc()), now, &LIMITS)
    }

    #[test]
    fn a_window_is_open_at_its_start_and_closed_at_its_end() {
        let evaluation = run("*/10 * * * * *", CatchUp::All, at(30));
        assert_eq!(evaluation.fire, [at(10), at(20), at(30)]);
        assert_eq!(evaluation.evaluated_at, at(30));
        assert_eq!(evaluation.next_fire_at, Some(at(40)));
        assert!(evaluation.skipped.is_empty());
    }

    #[test]
    fn a_window_is_evaluated_up_to_now_whatever_was_due_in_it() {
        for now in [0, 9, 35] {
            let evaluation = run("*/10 * * * * *", CatchUp::All, at(now));
            assert_eq!(evaluation.evaluated_at, at(now));
            assert_eq!(evaluation.fire.len() as i64, now / 10);
        }
    }

    #[test]
    fn a_due_time_is_on_time_until_it_is_older_than_the_limit() {
        for (now, fired) in [(660, 1), (661, 0)] {
            let evaluation = run("0 */10 * * * *", CatchUp::None, at(now));
            assert_eq!(evaluation.fire.len(), fired, "{now}");
            assert_eq!(evaluation.skipped.len(), 1 - fired, "{now}");
        }
    }

    #[test]
    fn more_than_the_cap_in_one_window_keeps_the_first_and_records_the_rest() {
        let evaluation = run("* * * * * *", CatchUp::All, at(100));
        assert_eq!(evaluation.fire.len(), 60);
        assert_eq!(evaluation.fire[0], at(1));
        let rest =
            Skipped { reason: SkipReason::WindowCap, first: at(61), last: at(100), count: 40 };
        assert_eq!(evaluation.skipped, [rest]);
        assert_eq!(evaluation.next_fire_at, Some(at(101)), "the cap is no stop");
    }

    #[test]
    fn what_is_older_than_the_catch_up_window_is_recorded_only() {
        let evaluation = run("0 */30 * * * *", CatchUp::All, at(3 * 3600));
        let old = Skipped {
            reason: SkipReason::CatchUpWindow,
            first: at(1800),
            last: at(2 * 3600 - 1800),
            count: 3,
        };
        assert_eq!(evaluation.skipped, [old]);
        assert_eq!(evaluation.fire, [at(7200), at(9000), at(10800)]);
    }

    #[test]
    fn catch_up_last_keeps_the_latest_missed_one() {
        let evaluation = run("0 */10 * * * *", CatchUp::Last, at(3000 + 300));
        assert_eq!(evaluation.fire, [at(3000)]);
        assert_eq!(evaluation.skipped[0].count, 4);
        assert_eq!(evaluation.skipped[0].reason, SkipReason::CatchUpPolicy);
    }

    #[test]
    fn catch_up_none_keeps_only_what_is_on_time() {
        let late = run("0 */10 * * * *", CatchUp::None, at(3000 + 300));
        assert!(late.fire.is_empty());
        assert_eq!(late.skipped[0].count, 5);
        let on_time = run("0 */10 * * * *", CatchUp::None, at(600));
        assert_eq!(on_time.fire, [at(600)]);
    }

    #[test]
    fn a_clock_that_was_set_back_fires_nothing_and_moves_nothing() {
        let evaluation = run("* * * * * *", CatchUp::All, at(-100));
        assert!(evaluation.fire.is_empty());
        assert_eq!(evaluation.evaluated_at, at(0));
    }

    #[test]
    fn a_very_long_window_is_taken_in_parts_without_a_gap() {
        let evaluation = run("* * * * * *", CatchUp::All, at(1_000_000));
        assert_eq!(evaluation.evaluated_at, at(100_000));
        assert_eq!(evaluation.next_fire_at, Some(at(100_001)));
        assert_eq!(evaluation.skipped[0].count, COUNTED_MAX);
    }

    #[test]
    fn of_a_very_long_window_one_due_time_is_the_last() {
        let limits = Limits { catch_up_window: Duration::days(30), ..LIMITS };
        let schedule = Schedule::parse("* * * * * *").unwrap();
        let (mut since, now, mut fired) = (at(0), at(250_000), Vec::new());
        while since < now {
            let window = (since, CatchUp::Last);
            let part = evaluate_from(window, (&schedule, &Zone::utc()), now, &limits);
            fired.extend(part.fire.iter().copied());
            since = part.evaluated_at;
        }
        assert_eq!(fired, (249_940..=250_000).map(at).take(60).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn every_due_time_is_fired_or_recorded_exactly_once(
            step in 1u32..50,
            policy in prop_oneof![Just(CatchUp::All), Just(CatchUp::Last), Just(CatchUp::None)],
            passes in proptest::collection::vec(0i64..5000, 1..8),
        ) {
            let schedule = Schedule::parse(&format!("*/{step} * * * * *")).unwrap();
            let mut trigger = trigger(policy);
            let mut now = at(0);
            let mut counted = 0usize;
            let mut last = at(0);
            for pass in passes {
                now += Duration::seconds(pass);
                let evaluation = evaluate(&trigger, (&schedule, &Zone::utc()), now, &LIMITS);
                let mut runs: Vec<_> = evaluation.fire.iter().map(|at| (*at, *at, 1)).collect();
                runs.extend(evaluation.skipped.iter().map(|run| (run.first, run.last, run.count)));
                runs.sort();
                for (first, end, count) in runs {
                    prop_assert!(first > last && end <= now);
                    prop_assert_eq!(schedule.between(&Zone::utc(), last, end).count(), count);
                    last = end;
                    counted += count;
                }
                trigger.evaluated_at = evaluation.evaluated_at;
            }
            prop_assert_eq!(counted, schedule.between(&Zone::utc(), at(0), now).count());
        }
    }
}
