//! Rate control without its memory: given the last accepted firing, whether the next may come.
//!
//! The same rule decides in the database, in one atomic statement; this one is for dry runs and
//! for messages.

use chrono::{DateTime, Duration, Utc};

use super::TriggerRule;

/// What holds a firing back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The rule's frequency.
    Frequency,
    /// The rule's cooldown, where it is longer.
    Cooldown,
}

impl Limit {
    /// The reason in the trigger log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Frequency => "frequency",
            Self::Cooldown => "cooldown",
        }
    }
}

/// Whether a rule may fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// It may.
    Allowed,
    /// Not now.
    Held {
        /// What holds it back.
        by: Limit,
        /// The first instant at which it may fire again; none: never.
        until: Option<DateTime<Utc>>,
    },
}

/// Which of the two makes the pause after a firing: the longer one, the frequency if they are equal.
pub fn limit(rule: &TriggerRule) -> Limit {
    let cooldown = Duration::seconds(i64::from(rule.cooldown_seconds));
    match rule.frequency.window() {
        Some(window) if cooldown > window => Limit::Cooldown,
        _ => Limit::Frequency,
    }
}

/// Whether the rule may fire at `now` for whom it last fired at `last_fired_at`. After a firing at
/// 10:00 a pause of an hour allows the next at 11:00 sharp. A last firing that lies in the future
/// holds as any other.
pub fn check(rule: &TriggerRule, last_fired_at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Rate {
    let (Some(last), true) = (last_fired_at, rule.is_limited()) else { return Rate::Allowed };
    let until = rule.pause().map(|pause| last.checked_add_signed(pause).unwrap_or(last));
    match until {
        Some(until) if until <= now => Rate::Allowed,
        until => Rate::Held { by: limit(rule), until },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Frequency;
    use super::super::fixture::{at, rule};
    use super::*;

    fn limited(frequency: Frequency, cooldown_seconds: i32) -> TriggerRule {
        TriggerRule { frequency, cooldown_seconds, ..rule() }
    }

    #[test]
    fn once_per_hour_holds_for_an_hour_from_the_last_firing() {
        let rule = limited(Frequency::OncePerHour, 0);
        assert_eq!(check(&rule, None, at(0)), Rate::Allowed);
        let held = Rate::Held { by: Limit::Frequency, until: Some(at(3600)) };
        assert_eq!(check(&rule, Some(at(0)), at(3599)), held);
        assert_eq!(check(&rule, Some(at(0)), at(3600)), Rate::Allowed);
    }

    #[test]
    fn the_longer_of_frequency_and_cooldown_holds() {
        let rule = limited(Frequency::OncePerHour, 7200);
        let held = Rate::Held { by: Limit::Cooldown, until: Some(at(7200)) };
        assert_eq!(check(&rule, Some(at(0)), at(3601)), held);
        assert_eq!(limit(&limited(Frequency::OncePerHour, 3600)), Limit::Frequency);
    }

    #[test]
    fn limits_have_the_names_that_the_log_holds() {
        let names = [Limit::Frequency, Limit::Cooldown].map(Limit::as_str);
        assert_eq!(names, ["frequency", "cooldown"]);
    }

    #[test]
    fn once_holds_for_ever_whatever_the_cooldown() {
        let rule = limited(Frequency::Once, 10);
        let held = Rate::Held { by: Limit::Frequency, until: None };
        assert_eq!(check(&rule, Some(at(0)), at(1_000_000_000)), held);
    }

    #[test]
    fn every_time_without_cooldown_never_holds() {
        let rule = limited(Frequency::EveryTime, 0);
        assert_eq!(check(&rule, Some(at(0)), at(0)), Rate::Allowed);
        assert_eq!(check(&rule, Some(at(60)), at(0)), Rate::Allowed);
    }

    proptest! {
        #[test]
        fn the_instant_it_names_is_the_first_that_is_allowed(
            which in 0..6_usize, cooldown in 0..100_000_i32, last in 0..1_000_000_i64,
            later in 0..10_000_000_i64,
        ) {
            let rule = limited(Frequency::ALL[which], cooldown);
            let now = at(last + later);
            if let Rate::Held { until: Some(until), .. } = check(&rule, Some(at(last)), now) {
                prop_assert!(until > now);
                prop_assert_eq!(check(&rule, Some(at(last)), until), Rate::Allowed);
                let before = until - Duration::milliseconds(1);
                prop_assert_ne!(check(&rule, Some(at(last)), before), Rate::Allowed);
            }
        }
    }
}
