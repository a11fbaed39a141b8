//! Media types: which answers a client takes (RFC 9110, 12.5.1), and what it sends.

use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};

/// The media types of answers ("GraphQL over HTTP", section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    /// `application/graphql-response+json`: the status tells whether the request was executed.
    GraphQl,
    /// `application/json`: the status is 200 whenever the request was well-formed.
    Json,
}

impl Media {
    /// The value of `Content-Type`.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::GraphQl => "application/graphql-response+json; charset=utf-8",
            Self::Json => "application/json; charset=utf-8",
        }
    }

    /// The media type that the client likes best; the newer one where it likes both as much. A
    /// client that takes anything gets the older one. None: it takes neither.
    pub(super) fn accepted(headers: &HeaderMap) -> Option<Self> {
        let (mut graphql, mut json, mut any) = (None, None, None);
        for range in list(headers) {
            let (range, parameters) = range.split_once(';').unwrap_or((range, ""));
            let weight = weight(parameters);
            match range.trim().to_ascii_lowercase().as_str() {
                "application/graphql-response+json" => graphql = Some(weight),
                "application/json" => json = Some(weight),
                "application/*" | "*/*" => any = any.max(Some(weight)),
                _ => {}
            }
        }
        if !headers.contains_key(ACCEPT) {
            return Some(Self::Json);
        }
        let json = json.or(any).unwrap_or_default();
        match graphql.unwrap_or_default() {
            0 if json == 0 => None,
            0 => Some(Self::Json),
            graphql if graphql >= json => Some(Self::GraphQl),
            _ => Some(Self::Json),
        }
    }
}

fn list(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(ACCEPT).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(','))
}

/// The weight in thousandths; 1 unless given. What is no weight counts as 1.
fn weight(parameters: &str) -> u16 {
    let weight = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse::<f32>().ok())?
    });
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1000")]
    weight.map_or(1000, |weight| (weight.clamp(0.0, 1.0) * 1000.0) as u16)
}

/// Whether the body is said to be `application/json`, in UTF-8 if a charset is named.
pub(super) fn sends_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let mut parts = kind.split(';').map(str::trim);
    let json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    let utf8 = parts.all(|parameter| match parameter.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => true,
    });
    json && utf8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(accept: &str) -> Option<Media> {
        Media::accepted(&HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]))
    }

    #[test]
    fn the_newer_type_is_sent_to_those_who_name_it() {
        assert_eq!(Media::accepted(&HeaderMap::new()), Some(Media::Json));
        for json in [
            "*/*",
            "application/*",
            "application/json",
            "text/html, */*;q=0.1",
            "application/graphql-response+json;q=0.5, application/json",
            "application/graphql-response+json;q=0, */*",
        ] {
            assert_eq!(accepted(json), Some(Media::Json), "{json}");
        }
        for graphql in [
            "application/graphql-response+json",
            "application/json, Application/GraphQL-Response+JSON; charset=utf-8",
            "application/graphql-response+json, application/json;q=0.9",
        ] {
            assert_eq!(accepted(graphql), Some(Media::GraphQl), "{graphql}");
        }
    }

    #[test]
    fn who_takes_no_json_gets_none() {
        for neither in ["text/html", "application/json;q=0", "*/*;q=0.0", "", "image/png, text/*"] {
            assert_eq!(accepted(neither), None, "{neither}");
        }
    }

    #[test]
    fn only_json_in_utf8_is_json() {
        let sends =
            |kind: &str| sends_json(&HeaderMap::from_iter([(CONTENT_TYPE, kind.parse().unwrap())]));
        assert!(sends("application/json"));
        assert!(sends("Application/JSON; charset=\"UTF-8\""));
        assert!(!sends("application/json; charset=latin1"));
        assert!(!sends("text/plain"));
        assert!(!sends("application/graphql"));
        assert!(!sends("application/x-www-form-urlencoded"));
        assert!(!sends_json(&HeaderMap::new()));
    }
}
