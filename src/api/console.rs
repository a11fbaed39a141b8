//! The GraphiQL page and its files, from inside the binary.
//!
//! `console/dist` holds the built files, each gzip-ed; they are sent as they
//! are, and inflated for the rare client that does not take gzip. The page
//! refers to everything relative to itself, so no base path is needed here, and
//! its policy lets the browser ask nobody but this server.
//!
//! This module must not know GraphQL, who asks, or any setting: whether the page
//! is served at all is decided by whoever merges the router.

use std::borrow::Cow;
use std::io::{self, Read};

use axum::Router;
use axum::extract::Path;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderName, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use bytes::Bytes;
use flate2::read::GzDecoder;
use rust_embed::Embed;

#[derive(Embed)]
#[folder = "console/dist"]
struct Dist;

/// What the browser may load and ask: this origin alone. The editor writes
/// inline styles and carries its cursors as `data:` images; `connect-src 'self'`
/// covers the websocket of the same origin (Content Security Policy Level 3).
const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
     font-src 'self' data:; img-src 'self' data:; worker-src 'self'; connect-src 'self'; \
     object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const SECURITY: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
];

/// The page is asked for anew each time: it names the files of this version.
const REVALIDATE: &str = "no-cache";
/// A file's name holds a hash of what is in it, so it never changes.
const FOREVER: &str = "public, max-age=31536000, immutable";

/// Routes of the page: `GET /graphiql`, to which `GET /` leads, its alias `GET /gql`, its files at
/// `GET /graphiql/assets/{path}`, and `GET /graphiql/licenses`, the licences of
/// the libraries that these files are built from. A trailing slash after the page's path
/// redirects (308), because relative addresses would miss otherwise.
///
/// Answers carry a strong `ETag` per content coding and `Vary: Accept-Encoding`;
/// a matching `If-None-Match` is answered 304 (RFC 9110, 13.1.2). An unknown
/// file is 404. No credentials are asked for: the files hold no secret.
pub fn router<S>() -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    Router::new()
        .route("/", get(async || Redirect::temporary("graphiql")))
        .route("/graphiql", get(page))
        .route("/gql", get(page))
        .route("/graphiql/", get(async || Redirect::permanent("../graphiql")))
        .route("/gql/", get(async || Redirect::permanent("../gql")))
        .route("/graphiql/licenses", get(licences))
        .route("/graphiql/assets/{*path}", get(asset))
        .route_layer(map_response(secure))
}

async fn page(headers: HeaderMap) -> Response {
    answer("graphiql.html", REVALIDATE, &headers)
}

async fn licences(headers: HeaderMap) -> Response {
    answer("licenses.md", REVALIDATE, &headers)
}

async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    answer(&format!("graphiql/assets/{path}"), FOREVER, &headers)
}

async fn secure(mut response: Response) -> Response {
    for (name, value) in SECURITY {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn answer(path: &str, cache: &'static str, asked: &HeaderMap) -> Response {
    let Some(file) = Dist::get(&format!("{path}.gz")) else {
        return (StatusCode::NOT_FOUND, [(CACHE_CONTROL, REVALIDATE)], "not found\n")
            .into_response();
    };
    let gzip = accepts_gzip(asked);
    let tag = entity_tag(&file.metadata.sha256_hash(), gzip);
    let common = [
        (ETAG, tag.clone()),
        (CACHE_CONTROL, cache.to_owned()),
        (VARY, ACCEPT_ENCODING.as_str().to_owned()),
    ];
    if matches(asked, &tag) {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    let kind = [(CONTENT_TYPE, media_type(path))];
    if gzip {
        let coding = [(CONTENT_ENCODING, "gzip")];
        return (common, kind, coding, into_bytes(file.data)).into_response();
    }
    match inflate(&file.data) {
        Ok(plain) => (common, kind, plain).into_response(),
        Err(error) => {
            tracing::error!(%error, path, "a file of the console can't be inflated");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn into_bytes(data: Cow<'static, [u8]>) -> Bytes {
    match data {
        Cow::Borrowed(data) => Bytes::from_static(data),
        Cow::Owned(data) => Bytes::from(data),
    }
}

fn inflate(data: &[u8]) -> io::Result<Vec<u8>> {
    let mut plain = Vec::with_capacity(data.len() * 4);
    GzDecoder::new(data).read_to_end(&mut plain)?;
    Ok(plain)
}

/// The two codings of a file are two representations and need two tags
/// (RFC 9110, 8.8.3.3).
fn entity_tag(hash: &[u8; 32], gzip: bool) -> String {
    let digest: String = hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    if gzip { format!("\"{digest}-gzip\"") } else { format!("\"{digest}\"") }
}

/// Whether `If-None-Match` names the tag, by weak comparison. Our tags hold no
/// comma, so a list can be split at commas.
fn matches(asked: &HeaderMap, tag: &str) -> bool {
    list(asked, &IF_NONE_MATCH)
        .any(|candidate| candidate == "*" || candidate.trim_start_matches("W/") == tag)
}

/// Whether gzip may be sent: named, or covered by `*`, and not with weight 0
/// (RFC 9110, 12.5.3). Without the header the plain file is the safe answer.
fn accepts_gzip(asked: &HeaderMap) -> bool {
    let (mut named, mut any) = (None, None);
    for entry in list(asked, &ACCEPT_ENCODING) {
        let (coding, parameters) = entry.split_once(';').unwrap_or((entry, ""));
        let weight = parameters.trim().trim_start_matches(['q', 'Q']).trim_start_matches('=');
        let wanted = weight.parse::<f32>().map_or(weight.is_empty(), |weight| weight > 0.0);
        match coding.trim() {
            "*" => any = Some(wanted),
            coding if coding.eq_ignore_ascii_case("gzip") => named = Some(wanted),
            _ => {}
        }
    }
    named.or(any).unwrap_or(false)
}

/// The trimmed members of a comma-separated header, over all its lines.
fn list<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).into_iter();
    lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(',')).map(str::trim)
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("md") => "text/markdown; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("ttf") => "font/ttf",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests;
