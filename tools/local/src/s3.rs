//! S3: the template's bucket, over HTTP. s3s parses the requests and verifies their
//! signatures, presigned ones too. Storage and replies are here.
//!
//! The server supports objects, uploads in parts, copies, ranges, SHA-256 in both of its forms, `If-None-Match: *`, and
//! the template's CORS. As in S3, a header `x-amz-*` must be signed. Tags, versions, lifecycle and policies are
//! missing, and no session token is checked.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::serve::ListenerExt as _;
use data_encoding::BASE64;
use futures_util::TryStreamExt as _;
use s3s::auth::{S3Auth, SecretKey};
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CompleteMultipartUploadInput, CompleteMultipartUploadOutput,
    CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopySource, CreateMultipartUploadInput,
    CreateMultipartUploadOutput, DeleteObjectInput, DeleteObjectOutput, ETag, GetObjectInput, GetObjectOutput,
    HeadObjectInput, HeadObjectOutput, ListPartsInput, ListPartsOutput, Part as ListedPart, PutObjectInput,
    PutObjectOutput, StreamingBlob, UploadPartInput, UploadPartOutput,
};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};
use serde::{Deserialize, Serialize};
use template::{Bucket, Cors};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower_http::cors::{AllowOrigin, CorsLayer};
use uuid::Uuid;

use crate::gateway::{Query, from_here};
use crate::{lock, reached, write_whole};

/// The secret of all sandboxes: see their environment. The key names the calling function.
const SECRET: &str = "local";
/// S3's maximum per request is 5 GiB; no client here sends more than a part.
const BODY_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Stops serving when dropped.
pub struct ObjectServer {
    objects: Arc<Objects>,
    address: SocketAddr,
    _stop: DropGuard,
}

/// The stored objects. With a folder, each object is a file in it, next to a file with its metadata.
struct Objects {
    folder: Option<PathBuf>,
    stored: Mutex<Stored>,
}

#[derive(Default)]
struct Stored {
    objects: BTreeMap<String, Object>,
    uploads: BTreeMap<String, Upload>,
}

#[derive(Clone)]
struct Object {
    bytes: Bytes,
    about: About,
}

/// What S3 says of an object.
#[derive(Clone, Serialize, Deserialize)]
struct About {
    key: String,
    mime: Option<String>,
    #[serde(default)]
    encoding: Option<String>,
    /// SHA-256 in base64, of what was put together with the number of parts behind it.
    checksum: String,
}

/// An upload in parts.
struct Upload {
    key: String,
    mime: Option<String>,
    parts: BTreeMap<i32, Bytes>,
}

impl ObjectServer {
    /// Starts the server with the objects that `data` already has. Without `data`, objects are in memory. Port 0 is any
    /// free port.
    pub async fn start(bucket: &Bucket, data: Option<&Path>, host: IpAddr, port: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((host, port)).await;
        let listener =
            listener.with_context(|| format!("S3 cannot listen on port {port}; choose another with --port"))?;
        let address = reached(&listener)?;
        let objects = Arc::new(Objects::open(data)?);
        let mut service = S3ServiceBuilder::new(Api(Arc::clone(&objects)));
        service.set_auth(Keys);
        let service = service.build();
        let router = Router::new()
            .fallback(async move |request| answer(&service, request).await)
            .layer(cors(&bucket.cors)?)
            .layer(axum::middleware::from_fn_with_state(address.ip(), from_here));
        let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap_or_default());
        let stop = CancellationToken::new();
        let serving = axum::serve(listener, router);
        tokio::spawn(stop.clone().run_until_cancelled_owned(serving.into_future()));
        Ok(Self { objects, address, _stop: stop.drop_guard() })
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<String> {
        lock(&self.objects.stored).objects.keys().cloned().collect()
    }

    /// As an operator does, who needs no URL.
    pub fn remove(&self, key: &str) {
        self.objects.remove(key);
    }
}

/// By the template's rules, for pages of this machine. Without the rules no page could upload anything.
pub(crate) fn cors(cors: &Cors) -> anyhow::Result<CorsLayer> {
    let names =
        |names: &[String]| names.iter().map(|name| HeaderName::try_from(name.as_str())).collect::<Result<Vec<_>, _>>();
    let methods = cors.methods.iter().map(|method| Method::from_bytes(method.as_bytes()));
    let origins = if cors.origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        let origins = cors.origins.iter().map(|origin| HeaderValue::try_from(origin.as_str()));
        AllowOrigin::list(origins.collect::<Result<Vec<_>, _>>()?)
    };
    Ok(CorsLayer::new()
        .allow_origin(origins)
        .allow_methods(methods.collect::<Result<Vec<_>, _>>()?)
        .allow_headers(names(&cors.headers)?)
        .expose_headers(names(&cors.exposed)?))
}

async fn answer(service: &S3Service, request: Request) -> Response {
    if has_unsigned(&request) {
        let refusal = "<Error><Code>AccessDenied</Code><Message>There were headers present in the request which were not signed</Message></Error>";
        return (StatusCode::FORBIDDEN, refusal).into_response();
    }
    let request = request.map(s3s::Body::http_body_unsync);
    match service.call(request).await {
        Ok(response) => response.map(Body::new),
        Err(error) => {
            let mut response = Response::new(Body::from(format!("{error:?}")));
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response
        }
    }
}

/// Whether a header of S3's own is not among the signed ones, which the URL or the header `Authorization` lists.
fn has_unsigned(request: &Request) -> bool {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let of_url = query.and_then(|query| query.get("X-Amz-SignedHeaders").map(str::to_owned));
    let of_header = || {
        let authorization = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
        Some(authorization.split_once("SignedHeaders=")?.1.split(',').next()?.to_owned())
    };
    let Some(signed) = of_url.or_else(of_header) else { return false };
    let is_signed = |name: &str| signed.split(';').any(|signed| signed == name);
    request.headers().keys().any(|name| name.as_str().starts_with("x-amz-") && !is_signed(name.as_str()))
}

/// A caller with the secret may do everything: permissions exist only in AWS.
struct Keys;

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, _: &str) -> S3Result<SecretKey> {
        Ok(SecretKey::from(SECRET))
    }
}

impl Objects {
    fn open(data: Option<&Path>) -> anyhow::Result<Self> {
        let folder = data.map(|data| data.join("objects"));
        let mut objects = BTreeMap::new();
        if let Some(folder) = &folder {
            std::fs::create_dir_all(folder)?;
            for file in std::fs::read_dir(folder)? {
                let path = file?.path();
                if path.extension().is_some_and(|extension| extension == "json") {
                    let read = |path: &Path| std::fs::read(path).with_context(|| path.display().to_string());
                    let about: About =
                        serde_json::from_slice(&read(&path)?).with_context(|| path.display().to_string())?;
                    let bytes = Bytes::from(read(&path.with_extension("bin"))?);
                    objects.insert(about.key.clone(), Object { bytes, about });
                }
            }
        }
        Ok(Self { folder, stored: Mutex::new(Stored { objects, uploads: BTreeMap::new() }) })
    }

    fn file(&self, key: &str) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        Some(folder.join(data_encoding::HEXLOWER.encode(key.as_bytes())))
    }

    /// Stores an object before it returns.
    fn put(&self, object: Object) -> std::io::Result<()> {
        if let Some(file) = self.file(&object.about.key) {
            std::fs::write(file.with_extension("bin"), &object.bytes)?;
            write_whole(&file.with_extension("json"), &serde_json::to_vec(&object.about)?)?;
        }
        lock(&self.stored).objects.insert(object.about.key.clone(), object);
        Ok(())
    }

    fn remove(&self, key: &str) {
        if lock(&self.stored).objects.remove(key).is_some()
            && let Some(file) = self.file(key)
        {
            // Whether they were there makes no difference.
            let _ = std::fs::remove_file(file.with_extension("json"));
            let _ = std::fs::remove_file(file.with_extension("bin"));
        }
    }

    fn get(&self, key: &str) -> S3Result<Object> {
        lock(&self.stored).objects.get(key).cloned().ok_or_else(|| s3_error!(NoSuchKey))
    }
}

/// All of a body, if it is what its sender says it is. S3 stores nothing else.
async fn checked(body: Option<StreamingBlob>, checksum: Option<&str>) -> S3Result<Bytes> {
    let body = body.ok_or_else(|| s3_error!(IncompleteBody))?;
    let mut bytes = Vec::new();
    let mut body = std::pin::pin!(body);
    while let Some(chunk) = body.try_next().await.map_err(|_| s3_error!(IncompleteBody))? {
        if bytes.len() + chunk.len() > BODY_BYTES_MAX {
            return Err(s3_error!(EntityTooLarge));
        }
        bytes.extend_from_slice(&chunk);
    }
    if checksum.is_some_and(|checksum| checksum != digest(&bytes)) {
        return Err(s3_error!(BadDigest));
    }
    Ok(bytes.into())
}

fn digest(bytes: &[u8]) -> String {
    BASE64.encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref())
}

fn etag(bytes: &[u8]) -> ETag {
    ETag::Strong(data_encoding::HEXLOWER.encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref()))
}

fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

struct Api(Arc<Objects>);

#[async_trait::async_trait]
impl S3 for Api {
    async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let PutObjectInput { key, body, checksum_sha256, if_none_match, .. } = request.input;
        let (mime, encoding) = (request.input.content_type, request.input.content_encoding);
        let bytes = checked(body, checksum_sha256.as_deref()).await?;
        let only_if_new = if_none_match.is_some_and(|condition| condition.is_any());
        if only_if_new && self.0.get(&key).is_ok() {
            return Err(s3_error!(PreconditionFailed));
        }
        let (e_tag, checksum) = (Some(etag(&bytes)), digest(&bytes));
        let about = About { key, mime, encoding, checksum };
        self.0.put(Object { bytes, about }).map_err(|_| s3_error!(InternalError))?;
        Ok(S3Response::new(PutObjectOutput { e_tag, ..PutObjectOutput::default() }))
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let GetObjectInput { key, range, .. } = request.input;
        let Object { bytes, about } = self.0.get(&key)?;
        let size = bytes.len();
        let (part, content_range) = match range {
            None => (bytes, None),
            Some(range) => {
                let range = range.check(size as u64)?;
                let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
                let shown = format!("bytes {}-{}/{size}", range.start, range.end.saturating_sub(1));
                (bytes.slice(place(range.start)..place(range.end)), Some(shown))
            }
        };
        Ok(S3Response::new(GetObjectOutput {
            accept_ranges: Some("bytes".to_owned()),
            content_length: Some(length(part.len())),
            body: Some(StreamingBlob::from(s3s::Body::from(part))),
            content_range,
            content_type: about.mime,
            content_encoding: about.encoding,
            ..GetObjectOutput::default()
        }))
    }

    async fn head_object(&self, request: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        let Object { bytes, about } = self.0.get(&request.input.key)?;
        Ok(S3Response::new(HeadObjectOutput {
            content_length: Some(length(bytes.len())),
            content_type: about.mime,
            content_encoding: about.encoding,
            checksum_sha256: request.input.checksum_mode.is_some().then_some(about.checksum),
            ..HeadObjectOutput::default()
        }))
    }

    async fn delete_object(&self, request: S3Request<DeleteObjectInput>) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.0.remove(&request.input.key);
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    async fn copy_object(&self, request: S3Request<CopyObjectInput>) -> S3Result<S3Response<CopyObjectOutput>> {
        let CopySource::Bucket { key: source, .. } = &request.input.copy_source else {
            return Err(s3_error!(NotImplemented));
        };
        let Object { bytes, about } = self.0.get(source)?;
        let result = CopyObjectResult { e_tag: Some(etag(&bytes)), ..CopyObjectResult::default() };
        // The parts are one object from then on.
        let about = About { key: request.input.key, checksum: digest(&bytes), ..about };
        self.0.put(Object { bytes, about }).map_err(|_| s3_error!(InternalError))?;
        Ok(S3Response::new(CopyObjectOutput { copy_object_result: Some(result), ..CopyObjectOutput::default() }))
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        let CreateMultipartUploadInput { bucket, key, content_type: mime, .. } = request.input;
        let upload_id = Uuid::new_v4().to_string();
        let upload = Upload { key: key.clone(), mime, parts: BTreeMap::new() };
        lock(&self.0.stored).uploads.insert(upload_id.clone(), upload);
        let (bucket, key, upload_id) = (Some(bucket), Some(key), Some(upload_id));
        let begun = CreateMultipartUploadOutput { bucket, key, upload_id, ..CreateMultipartUploadOutput::default() };
        Ok(S3Response::new(begun))
    }

    async fn upload_part(&self, request: S3Request<UploadPartInput>) -> S3Result<S3Response<UploadPartOutput>> {
        let UploadPartInput { upload_id, part_number, body, checksum_sha256, .. } = request.input;
        let bytes = checked(body, checksum_sha256.as_deref()).await?;
        let e_tag = Some(etag(&bytes));
        let mut stored = lock(&self.0.stored);
        let upload = stored.uploads.get_mut(&upload_id).ok_or_else(|| s3_error!(NoSuchUpload))?;
        upload.parts.insert(part_number, bytes);
        Ok(S3Response::new(UploadPartOutput { e_tag, ..UploadPartOutput::default() }))
    }

    async fn list_parts(&self, request: S3Request<ListPartsInput>) -> S3Result<S3Response<ListPartsOutput>> {
        let stored = lock(&self.0.stored);
        let upload = stored.uploads.get(&request.input.upload_id).ok_or_else(|| s3_error!(NoSuchUpload))?;
        let part = |(number, bytes): (&i32, &Bytes)| ListedPart {
            part_number: Some(*number),
            e_tag: Some(etag(bytes)),
            size: Some(length(bytes.len())),
            checksum_sha256: Some(digest(bytes)),
            ..ListedPart::default()
        };
        let parts = Some(upload.parts.iter().map(part).collect());
        Ok(S3Response::new(ListPartsOutput { parts, is_truncated: Some(false), ..ListPartsOutput::default() }))
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let upload = lock(&self.0.stored).uploads.remove(&request.input.upload_id);
        let Upload { key, mime, parts } = upload.ok_or_else(|| s3_error!(NoSuchUpload))?;
        let digests = parts.values().map(|part| aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, part));
        let digests: Vec<u8> = digests.flat_map(|digest| digest.as_ref().to_vec()).collect();
        let checksum = format!("{}-{}", digest(&digests), parts.len());
        let bytes = Bytes::from(parts.values().flat_map(|part| part.iter().copied()).collect::<Vec<u8>>());
        let about = About { key: key.clone(), mime, encoding: None, checksum };
        self.0.put(Object { bytes, about }).map_err(|_| s3_error!(InternalError))?;
        let done = CompleteMultipartUploadOutput { key: Some(key), ..CompleteMultipartUploadOutput::default() };
        Ok(S3Response::new(done))
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        let upload = lock(&self.0.stored).uploads.remove(&request.input.upload_id);
        upload.ok_or_else(|| s3_error!(NoSuchUpload))?;
        Ok(S3Response::new(AbortMultipartUploadOutput::default()))
    }
}
