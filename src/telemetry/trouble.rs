//! Troubles that last: what goes wrong again and again is said again, and not each time.

use std::time::Duration;

/// How long the same trouble is not said again.
const SILENCE: Duration = Duration::from_secs(300);

/// A trouble that something has, as long as it has it. The default: none.
#[derive(Debug, Default)]
pub struct Trouble {
    said: Option<String>,
    silent: Duration,
}

impl Trouble {
    /// It went wrong, about `since` after it last did. Whether that is to be said: the first time, when
    /// it is another trouble than the one that was said last, and otherwise every five minutes.
    pub fn is_news(&mut self, what: &str, since: Duration) -> bool {
        self.silent = self.silent.saturating_add(since);
        let known = self.said.as_deref() == Some(what);
        let is_news = !known || self.silent >= SILENCE;
        if is_news {
            self.said = Some(what.to_owned());
            self.silent = Duration::ZERO;
        }
        is_news
    }

    /// It went well. Whether there was trouble before.
    pub fn is_over(&mut self) -> bool {
        self.said.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_that_lasts_is_said_first_and_every_five_minutes() {
        let mut trouble = Trouble::default();
        let said: Vec<_> =
            (0..31).filter(|_| trouble.is_news("away", Duration::from_secs(30))).collect();
        assert_eq!(said, [0, 10, 20, 30]);
    }

    #[test]
    fn another_trouble_is_said_at_once_and_so_is_one_that_comes_back() {
        let (mut trouble, since) = (Trouble::default(), Duration::from_secs(1));
        assert!(!trouble.is_over());
        assert!(trouble.is_news("away", since));
        assert!(!trouble.is_news("away", since));
        assert!(trouble.is_news("wrong password", since));
        assert!(trouble.is_over());
        assert!(trouble.is_news("wrong password", since));
    }
}
