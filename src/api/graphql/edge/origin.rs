//! Web pages of other origins. A browser lets any page open a websocket to any server, so the
//! server must look where the page comes from (RFC 6455, 10.2).

use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};

use crate::config::Config;

/// Whether whoever sends these headers may open a websocket: no browser, a page of this very host
/// or of the server's public address, or a page of an allowed origin.
pub(super) fn may_connect(headers: &HeaderMap, config: &Config) -> bool {
    let Some(origin) = headers.get(ORIGIN) else {
        return true;
    };
    let Ok(origin) = origin.to_str() else {
        return false;
    };
    let public = config.public_url.as_ref().map(|url| url.origin().ascii_serialization());
    if public.is_some_and(|public| public == origin)
        || config.cors.allowed_origins.iter().any(|allowed| allowed == origin)
    {
        return true;
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let from = origin.split_once("://").map(|(_, host)| host);
    from.is_some() && from == host
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(pairs: &[(&'static str, &str)]) -> bool {
        let variables = [
            ("PFY_CORS_ALLOWED_ORIGINS", "https://console.example.com"),
            ("PFY_PUBLIC_URL", "https://triggers.example.com/api"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let config = Config::load(None, variables.into_iter()).unwrap();
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        may_connect(&headers, &config)
    }

    #[test]
    fn programs_and_pages_of_this_host_may_connect() {
        assert!(may(&[]));
        assert!(may(&[("host", "localhost:8080"), ("origin", "http://localhost:8080")]));
        assert!(may(&[("host", "10.0.0.1:80"), ("origin", "https://triggers.example.com")]));
        assert!(may(&[("host", "10.0.0.1:80"), ("origin", "https://console.example.com")]));
    }

    #[test]
    fn pages_from_elsewhere_may_not() {
        for origin in ["https://evil.example", "null", "http://localhost:8081", "localhost:8080"] {
            assert!(!may(&[("host", "localhost:8080"), ("origin", origin)]), "{origin}");
        }
        assert!(!may(&[("origin", "https://evil.example")]));
    }
}
