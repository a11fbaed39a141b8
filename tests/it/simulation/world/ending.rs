//! The end of a world: nothing goes wrong any more, and all that is due is done.

use chrono::Duration;
use trigger_manager::app::UpdateTrigger;
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::page::{Direction, PageRequest};
use trigger_manager::store::executor::next_due;

use super::super::backend::Mood;
use super::super::calendar::NEVER;
use super::super::calls::Call;
use super::World;

/// How often time may jump to what is due next before something counts as stuck.
const JUMPS_MAX: usize = 300;

impl World {
    pub(super) async fn end(&mut self) {
        self.s.note("the end begins");
        self.s.faults = Default::default();
        self.s.requests.set_moods([Mood::Healthy; 2]);
        for (_, skew) in &mut self.s.clocks {
            *skew = Duration::zero();
        }
        // Beyond every stall, and beyond the executors that are down.
        self.s.advance(61_000);
        for number in 0..2 {
            self.quietly(Call::Register { number }).await;
        }
        self.round(false).await;
        self.s.advance(1_000);
        self.round(false).await;
        self.quiet_down().await;
        for _ in 0..JUMPS_MAX {
            if !self.is_open().await {
                return;
            }
            let next = next_due(self.p.t.app.store.read()).await.unwrap();
            let far = self.s.time + Duration::seconds(21);
            let next = [next.action_at, next.waiting_at, next.event_at, next.rule_at];
            let next = next.into_iter().flatten().fold(far, std::cmp::min);
            let wait = (next - self.s.time).max(Duration::seconds(1));
            self.s.advance(wait.num_milliseconds());
            self.beat().await;
            self.round(false).await;
        }
        panic!("work is still open: {:#?}", self.open().await);
    }

    /// Gives every trigger a schedule that is not due any more: what it has queued stays.
    async fn quiet_down(&mut self) {
        let page = PageRequest { limit: 200, ..Default::default() };
        let sort = (Default::default(), Direction::Ascending);
        let all = self.p.t.app.triggers(Scope::Everything, &Default::default(), sort, &page).await;
        for (_, trigger) in all.unwrap().rows {
            let behind =
                trigger.enabled && trigger.next_fire_at.is_some_and(|at| at <= self.s.time);
            assert!(!behind, "nobody evaluated what is due: {trigger:?}");
            let never = UpdateTrigger { cron_expression: Some(NEVER.into()), ..Default::default() };
            self.p.t.update(trigger.id, never).await;
        }
        self.end_schedules().await;
    }

    /// Deletes the time-based rules.
    async fn end_schedules(&self) {
        let page = PageRequest { limit: 200, ..Default::default() };
        let sort = (Default::default(), Direction::Ascending);
        let app = &self.p.t.app;
        let all = app.trigger_rules(Scope::Everything, &Default::default(), sort, &page).await;
        for (_, rule) in all.unwrap().rows {
            if let Some(at) = rule.next_fire_at {
                assert!(at > self.s.time, "nobody evaluated what is due: {rule:?}");
                app.delete_trigger_rule(&self.p.t.caller, rule.id).await.unwrap();
            }
        }
    }

    async fn is_open(&self) -> bool {
        !self.open().await.is_empty()
    }

    /// What has not come to an end.
    async fn open(&self) -> Vec<String> {
        let page = PageRequest { limit: 5, ..Default::default() };
        let (all, up) = (Scope::Everything, Direction::Ascending);
        let statuses = ["pending", "processing"]
            .map(|name| trigger_manager::domain::delivery::ActionStatus::from_name(name).unwrap());
        let statuses = statuses.to_vec();
        let filter = trigger_manager::app::DeliveryFilter { statuses, ..Default::default() };
        let deliveries = self.p.t.app.deliveries(all, &filter, up, &page).await.unwrap();
        let statuses = vec![trigger_manager::domain::trigger::OccurrenceStatus::Pending];
        let filter = trigger_manager::app::OccurrenceFilter { statuses, ..Default::default() };
        let occurrences = self.p.t.app.occurrences(all, &filter, up, &page).await.unwrap();
        let deliveries = deliveries.rows.into_iter().map(|(_, row)| format!("{row:?}"));
        let occurrences = occurrences.rows.into_iter().map(|(_, row)| format!("{row:?}"));
        let actions = self.p.actions().await.into_iter();
        let actions = actions.filter(|action| action.executed_at.is_none());
        let actions = actions.map(|action| format!("{action:?}"));
        deliveries.chain(occurrences).chain(actions).collect()
    }
}
