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
            let next = next_due(self.t.app.store.read()).await.unwrap();
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
        let all = self.t.app.triggers(Scope::Everything, &Default::default(), sort, &page).await;
        for (_, trigger) in all.unwrap().rows {
            let behind =
                trigger.enabled && trigger.next_fire_at.is_some_and(|at| at <= self.s.time);
            assert!(!behind, "nobody evaluated what is due: {trigger:?}");
            let never = UpdateTrigger { cron_expression: Some(NEVER.into()), ..Default::default() };
            self.t.update(trigger.id, never).await;
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
        let deliveries = self.t.app.deliveries(all, &filter, up, &page).await.unwrap();
        let statuses = vec![trigger_manager::domain::trigger::OccurrenceStatus::Pending];
        let filter = trigger_manager::app::OccurrenceFilter { statuses, ..Default::default() };
        let occurrences = self.t.app.occurrences(all, &filter, up, &page).await.unwrap();
        let deliveries = deliveries.rows.into_iter().map(|(_, row)| format!("{row:?}"));
        deliveries.chain(occurrences.rows.into_iter().map(|(_, row)| format!("{row:?}"))).collect()
    }
}
