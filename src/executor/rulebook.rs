//! The rules of the LINE OAs that this executor met, ready for use.
//!
//! Every transaction that evaluates asks how often the LINE OA's rules have changed, and reads what
//! changed since it asked last: an edit counts from the next transaction on, and the database is asked
//! for no more than what was edited.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::id::LineOaId;
use crate::error::Result;
use crate::rules::RuleIndex;
use crate::store::{Tx, rule};

/// LINE OAs whose rules are kept; beyond that all are read anew.
const KEPT: usize = 1_000;

#[derive(Default)]
pub(super) struct Rulebook(Mutex<HashMap<LineOaId, Kept>>);

#[derive(Clone)]
struct Kept {
    version: i64,
    rules: Arc<RuleIndex>,
}

impl Rulebook {
    /// The rules of `line_oas` as `tx` sees them. A LINE OA that was deleted has none.
    pub async fn read(
        &self,
        tx: &Tx,
        line_oas: BTreeSet<LineOaId>,
    ) -> Result<HashMap<LineOaId, Arc<RuleIndex>>> {
        let line_oas: Vec<_> = line_oas.into_iter().collect();
        let mut read = HashMap::new();
        for (line_oa, version) in rule::versions(tx, &line_oas).await? {
            let kept = self.kept(line_oa);
            let rules = match kept {
                Some(kept) if kept.version == version => kept.rules,
                kept => self.renew(tx, (line_oa, version), kept).await?,
            };
            read.insert(line_oa, rules);
        }
        Ok(read)
    }

    fn kept(&self, line_oa: LineOaId) -> Option<Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&line_oa).cloned()
    }

    async fn renew(
        &self,
        tx: &Tx,
        (line_oa, version): (LineOaId, i64),
        kept: Option<Kept>,
    ) -> Result<Arc<RuleIndex>> {
        // A count that went back is another database's.
        let kept = kept.filter(|kept| kept.version < version);
        let since = kept.as_ref().map_or(0, |kept| kept.version);
        let mut rules = kept.map(|kept| kept.rules).unwrap_or_default();
        let index = Arc::make_mut(&mut rules);
        for changed in rule::changed_since(&**tx, line_oa, since).await? {
            index.apply(&changed);
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= KEPT {
            all.clear();
        }
        all.insert(line_oa, Kept { version, rules: rules.clone() });
        Ok(rules)
    }
}
