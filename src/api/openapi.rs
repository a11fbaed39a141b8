//! The OpenAPI 3.1 description of the REST surface, and a reference page made of it.
//!
//! The description grows from the handlers themselves, so that a route can't be forgotten; what
//! all of them share (problems, security) is added here. The page and its scripts come from
//! inside the binary, and its policy lets the browser ask nobody but this server.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{
    Components, ContentBuilder, InfoBuilder, License, OpenApi, Ref, RefOr, ResponseBuilder,
};
use utoipa_swagger_ui::Config;

use super::machine::{self, PROBLEM_JSON};

/// Inline styles and `data:` images are Swagger UI's own; scripts are files.
const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
     img-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'";

const SECURITY: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
];

const DESCRIPTION: &str = "What backends and other services ask of the Trigger Manager.\n\n\
    A backend registers with its callback URL and keeps sending heartbeats; when a trigger of its \
    application is due, the server POSTs to that URL. Services send events, which meet the trigger \
    rules of a LINE OA, and queue resumes of workflows.\n\n\
    Names in answers are camelCase. In requests snake_case is read too. A field that is not known \
    is refused with 422, with the names of those that are; of events, fields that are not known are \
    passed over, and their payload keeps all that it brings. A parameter of the query that is not known \
    is refused likewise. Times are RFC 3339 in UTC. Every error is a problem document \
    (RFC 9457) with a stable `code`: 400 means that the request can't be read, 422 that a value \
    does not fit. A body has at most 64 KiB where nothing else is said.";

/// The security scheme of the LINE platform's webhook, whose caller has no account here.
pub(super) const LINE_SIGNATURE: &str = "lineSignature";

/// What only callers with an account are answered.
const OF_ACCOUNTS: [u16; 3] = [403, 415, 429];

/// What every operation may answer.
const ANY: [(u16, &str, &str); 5] = [
    (401, "Unauthenticated", "No credentials, or credentials that do not hold."),
    (403, "Forbidden", "The caller is known and may not do this."),
    (429, "RateLimited", "Too many wrong passwords were tried; wait as Retry-After says."),
    (500, "Internal", "The server's fault; its log says more under the request's id."),
    (503, "Busy", "The server can't take this now; try again as Retry-After says."),
];

/// What an operation with parameters or a body may answer besides.
const INPUT: [(u16, &str, &str); 1] = [(
    400,
    "Malformed",
    "The request can't be read; of a body that is no JSON, `detail` names line and column.",
)];

/// What an operation that takes values may answer besides. (A path's id that is none is 404.)
const VALUES: [(u16, &str, &str); 1] = [(
    422,
    "Invalid",
    "A value does not fit; `field` names it and `detail` says what would be right.",
)];

/// What an operation that reads a body may answer besides.
const BODY: [(u16, &str, &str); 2] = [
    (413, "TooLarge", "The body has more bytes than `detail` says, 64 KiB for most endpoints."),
    (415, "UnsupportedMediaType", "The body is not sent as application/json."),
];

/// `GET /api/openapi.json`, and the reference page at `GET /api/docs` with its files below. No
/// credentials are asked for: nothing here is secret.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/api/openapi.json", get(document))
        .route("/api/docs", get(async || Redirect::permanent("docs/")))
        .route("/api/docs/", get(async || file("")))
        .route("/api/docs/{*path}", get(async |Path(path): Path<String>| file(&path)))
        .route_layer(map_response(secure))
}

/// The description, complete.
pub fn openapi() -> OpenApi {
    let mut document = machine::documented().into_openapi();
    document.info = InfoBuilder::new()
        .title("Trigger Manager: REST for machines")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(DESCRIPTION))
        .license(Some(License::builder().name("Apache-2.0").identifier(Some("Apache-2.0")).build()))
        .build();
    let components = document.components.get_or_insert_default();
    for (_, name, description) in ANY.into_iter().chain(INPUT).chain(VALUES).chain(BODY) {
        components.responses.insert(name.to_owned(), problem(description));
    }
    describe_security(components);
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            complete(operation);
        }
    }
    document
}

fn problem(description: &str) -> RefOr<utoipa::openapi::Response> {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    ResponseBuilder::new().description(description).content(PROBLEM_JSON, content).build().into()
}

fn describe_security(components: &mut Components) {
    let scheme = |scheme, description: &str| {
        let mut http = Http::new(scheme);
        http.description = Some(description.to_owned());
        RefOr::T(SecurityScheme::Http(http))
    };
    components.security_schemes.extend([
        (
            "machineToken".to_owned(),
            scheme(HttpAuthScheme::Bearer, "A machine user's token, `muser_…`."),
        ),
        (
            "machineBasic".to_owned(),
            scheme(HttpAuthScheme::Basic, "A machine user's name and password."),
        ),
        (
            "userToken".to_owned(),
            scheme(HttpAuthScheme::Bearer, "A personal access token, `pfy_…`, or a session's JWT."),
        ),
        (
            LINE_SIGNATURE.to_owned(),
            RefOr::T(SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description(
                "x-line-signature",
                "base64 of the HMAC-SHA256 of the raw body, keyed with the channel secret.",
            )))),
        ),
    ]);
}

fn complete(operation: &mut Operation) {
    let schemes = ["machineToken", "machineBasic", "userToken"];
    let none: [&str; 0] = [];
    let by_account = operation.security.is_none();
    operation.security.get_or_insert_with(|| {
        schemes.into_iter().map(|name| SecurityRequirement::new(name, none)).collect()
    });
    let has_body = operation.request_body.is_some();
    let parameters = operation.parameters.as_deref().unwrap_or_default();
    let has_query = parameters.iter().any(|parameter| {
        matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query)
    });
    let has_input = has_body || !parameters.is_empty();
    let shared = ANY
        .iter()
        .chain(INPUT.iter().filter(|_| has_input))
        .chain(VALUES.iter().filter(|_| has_body || has_query))
        .chain(BODY.iter().filter(|_| has_body));
    let shared = shared.filter(|(status, ..)| by_account || !OF_ACCOUNTS.contains(status));
    for (status, name, _) in shared {
        let reference = Ref::new(format!("#/components/responses/{name}"));
        operation.responses.responses.entry(status.to_string()).or_insert(RefOr::Ref(reference));
    }
}

async fn document() -> Response {
    static JSON: LazyLock<Option<String>> = LazyLock::new(|| openapi().to_json().ok());
    match &*JSON {
        Some(json) => ([(CONTENT_TYPE, "application/json")], json.as_str()).into_response(),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Everything is relative to the page, so that a base path before ours works; nothing is asked
/// of a validator elsewhere.
fn file(path: &str) -> Response {
    static CONFIG: LazyLock<Arc<Config<'static>>> = LazyLock::new(|| {
        let config = Config::from("../openapi.json").validator_url("none");
        Arc::new(config.try_it_out_enabled(true).persist_authorization(false))
    });
    match utoipa_swagger_ui::serve(path, CONFIG.clone()) {
        Ok(Some(file)) => {
            ([(CONTENT_TYPE, file.content_type)], file.bytes.into_owned()).into_response()
        }
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => {
            tracing::error!(%error, path, "a file of the reference page can't be made");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

async fn secure(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in SECURITY {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
    response
}
