//! Cost of this process's reads, from DynamoDB's own replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_sdk_dynamodb::config::interceptors::{
    AfterDeserializationInterceptorContextRef, BeforeSerializationInterceptorContextMut,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::batch_get_item::{BatchGetItemInput, BatchGetItemOutput};
use aws_sdk_dynamodb::operation::get_item::{GetItemInput, GetItemOutput};
use aws_sdk_dynamodb::operation::query::{QueryInput, QueryOutput};
use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};

/// Counts halves, the least that a read costs. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadUnits(Arc<AtomicU64>);

impl ReadUnits {
    pub(crate) fn halves(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Intercept for ReadUnits {
    fn name(&self) -> &'static str {
        "read units"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let (input, total) = (context.input_mut(), Some(ReturnConsumedCapacity::Total));
        if let Some(query) = input.downcast_mut::<QueryInput>() {
            query.return_consumed_capacity = total;
        } else if let Some(get) = input.downcast_mut::<GetItemInput>() {
            get.return_consumed_capacity = total;
        } else if let Some(get) = input.downcast_mut::<BatchGetItemInput>() {
            get.return_consumed_capacity = total;
        }
        Ok(())
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Ok(output) = context.output_or_error() else { return Ok(()) };
        let consumed: &[ConsumedCapacity] = if let Some(query) = output.downcast_ref::<QueryOutput>() {
            query.consumed_capacity.as_slice()
        } else if let Some(get) = output.downcast_ref::<GetItemOutput>() {
            get.consumed_capacity.as_slice()
        } else if let Some(get) = output.downcast_ref::<BatchGetItemOutput>() {
            get.consumed_capacity()
        } else {
            &[]
        };
        let halves: f64 = consumed.iter().filter_map(ConsumedCapacity::capacity_units).map(|units| units * 2.0).sum();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number of halves")]
        self.0.fetch_add(halves as u64, Ordering::Relaxed);
        Ok(())
    }
}
