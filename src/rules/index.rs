//! The rules of one LINE OA, found by what they wait for.

use std::collections::HashMap;
use std::sync::Arc;

use super::CompiledRule;
use crate::domain::id::TriggerRuleId;
use crate::domain::rule::TriggerRule;

/// The enabled rules of one LINE OA by source type and key. An event meets the rules that could
/// match it, however many others there are.
#[derive(Debug, Default, Clone)]
pub struct RuleIndex {
    rules: HashMap<TriggerRuleId, Arc<CompiledRule>>,
    /// By source type, then by key; each list in the order of the ids.
    waiting: HashMap<String, HashMap<String, Vec<Arc<CompiledRule>>>>,
}

impl RuleIndex {
    /// An index of these rules of one LINE OA.
    pub fn build<'a>(rules: impl IntoIterator<Item = &'a TriggerRule>) -> Self {
        let mut index = Self::default();
        rules.into_iter().for_each(|rule| index.apply(rule));
        index
    }

    /// Takes a rule in as it is now. One that is disabled or deleted leaves. A rule that can't be
    /// understood stays, to say so for each event that it would have met.
    pub fn apply(&mut self, rule: &TriggerRule) {
        self.remove(rule.id);
        if !rule.enabled || rule.deleted_date.is_some() {
            return;
        }
        let compiled = Arc::new(CompiledRule::stored(rule));
        let keys = self.waiting.entry(rule.source_type.clone()).or_default();
        let list = keys.entry(compiled.key().to_owned()).or_default();
        let place = list.partition_point(|other| other.rule.id < rule.id);
        list.insert(place, compiled.clone());
        self.rules.insert(rule.id, compiled);
    }

    /// Takes a rule out.
    pub fn remove(&mut self, id: TriggerRuleId) {
        let Some(old) = self.rules.remove(&id) else { return };
        let Some(keys) = self.waiting.get_mut(&old.rule.source_type) else { return };
        if let Some(list) = keys.get_mut(old.key()) {
            list.retain(|other| other.rule.id != id);
            if list.is_empty() {
                keys.remove(old.key());
            }
        }
    }

    /// The rules that could match an event of that type with those keys, in the order of their ids,
    /// each once.
    pub fn candidates(&self, event_type: &str, keys: &[String]) -> Vec<&Arc<CompiledRule>> {
        let Some(waiting) = self.waiting.get(event_type) else { return Vec::new() };
        let lists = keys.iter().filter_map(|key| waiting.get(key));
        let mut found: Vec<_> = lists.flatten().collect();
        if keys.len() > 1 {
            found.sort_unstable_by_key(|rule| rule.rule.id);
            found.dedup_by_key(|rule| rule.rule.id);
        }
        found
    }

    /// The rule of that id.
    pub fn get(&self, id: TriggerRuleId) -> Option<&Arc<CompiledRule>> {
        self.rules.get(&id)
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}
