//! `campaign_click`: a user followed a link of a campaign.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Source, compose};
use crate::domain::rule::label::{LABEL_MAX, Label};
use crate::domain::rule::misfit::{Misfit, cut, text};

/// Waits for a click: of a campaign, on a link, or any.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CampaignClick {
    /// The campaign; any if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    campaign_id: Option<Label>,
    /// The link; any if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    link_id: Option<Label>,
}

/// A click.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Click {
    /// The campaign.
    campaign_id: Label,
    /// The link.
    #[serde(default)]
    link_id: Option<Label>,
    /// Where the link leads.
    #[serde(rename = "url", default)]
    _url: Option<String>,
}

fn inner(label: &Option<Label>) -> Option<&str> {
    label.as_ref().map(|label| label.0.as_str())
}

impl Source for CampaignClick {
    const TYPE: &'static str = "campaign_click";
    const DESCRIPTION: &'static str = "A user followed a link of a campaign.";
    type Payload = Click;

    fn check(&self) -> Result<(), Misfit> {
        for (path, label) in [("campaignId", &self.campaign_id), ("linkId", &self.link_id)] {
            label.as_ref().map_or(Ok(()), |label| text(path, &label.0, LABEL_MAX))?;
        }
        Ok(())
    }

    fn key(&self) -> String {
        compose(&[inner(&self.campaign_id), inner(&self.link_id)])
    }

    fn keys(click: &Click) -> Vec<String> {
        let campaign = Some(click.campaign_id.0.as_str());
        let mut keys = vec![String::new(), compose(&[campaign, None])];
        if let Some(link) = inner(&click.link_id) {
            keys.extend([compose(&[None, Some(link)]), compose(&[campaign, Some(link)])]);
        }
        keys
    }

    fn matches(&self, click: &Click) -> Result<(), String> {
        if let Some(campaign) = &self.campaign_id
            && *campaign != click.campaign_id
        {
            return Err(format!(
                "the campaign is {}, not {campaign}",
                cut(&click.campaign_id.0, 50)
            ));
        }
        match (inner(&self.link_id), inner(&click.link_id)) {
            (Some(link), None) => {
                Err(format!("the click names no link, the rule waits for {link}"))
            }
            (Some(link), Some(seen)) if link != seen => {
                Err(format!("the link is {}, not {link}", cut(seen, 50)))
            }
            _ => Ok(()),
        }
    }
}
