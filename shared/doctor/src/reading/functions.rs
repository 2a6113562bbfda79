//! The functions, what calls them, and how many may run.

use aws_config::SdkConfig;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::operation::get_function_configuration::GetFunctionConfigurationOutput;
use aws_sdk_lambda::types::{
    EventSourceMappingConfiguration, FunctionResponseType, LastUpdateStatus, RecursiveLoop, State,
};
use futures::FutureExt;
use futures::future::join_all;
use futures::join;

use super::answers::{name_in, natural, unread};
use super::site::Deployed;
use crate::seen::{Account, Function, FunctionSettings, Mapping, Read, Step};

pub(super) async fn read(config: &SdkConfig, deployed: &Deployed) -> Vec<Function> {
    let client = &Client::new(config);
    join_all(Step::ALL.map(|step| one(client, deployed, step))).await
}

async fn one(client: &Client, deployed: &Deployed, step: Step) -> Function {
    let name = match deployed.function(step) {
        Ok(name) => name,
        Err(none) => {
            let (settings, may_loop, reserved) = (Err(none.clone()), Err(none.clone()), Err(none.clone()));
            return Function { step, settings, may_loop, reserved, mappings: Err(none) };
        }
    };
    let (settings, may_loop, reserved, mappings) =
        join!(settings(client, name), may_loop(client, name), reserved(client, name), mappings(client, name));
    Function { step, settings, may_loop, reserved, mappings }
}

async fn settings(client: &Client, name: &str) -> Read<FunctionSettings> {
    match client.get_function_configuration().function_name(name).send().boxed().await {
        Ok(answer) => Ok(settings_in(&answer)),
        Err(error) if error.as_service_error().is_some_and(|error| error.is_resource_not_found_exception()) => {
            let trouble = Some("the function is not there".to_owned());
            Ok(FunctionSettings { trouble, ..FunctionSettings::default() })
        }
        Err(error) => Err(unread(error)),
    }
}

fn settings_in(answer: &GetFunctionConfigurationOutput) -> FunctionSettings {
    let said = |reason: Option<&str>| reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    let trouble = match (answer.state(), answer.last_update_status()) {
        (Some(state @ (State::Failed | State::Inactive)), _) => {
            Some(format!("the function is {}{}", state.as_str(), said(answer.state_reason())))
        }
        (_, Some(LastUpdateStatus::Failed)) => {
            Some(format!("its last update failed{}", said(answer.last_update_status_reason())))
        }
        _ => None,
    };
    let variables = answer.environment().and_then(|environment| environment.variables());
    FunctionSettings {
        timeout_s: natural(answer.timeout().unwrap_or_default()),
        trouble,
        variables: variables.map(|variables| variables.keys().cloned().collect()).unwrap_or_default(),
    }
}

async fn may_loop(client: &Client, name: &str) -> Read<bool> {
    let answer = client.get_function_recursion_config().function_name(name).send().boxed().await.map_err(unread)?;
    Ok(answer.recursive_loop() == Some(&RecursiveLoop::Allow))
}

async fn reserved(client: &Client, name: &str) -> Read<Option<u64>> {
    let answer = client.get_function_concurrency().function_name(name).send().boxed().await.map_err(unread)?;
    Ok(answer.reserved_concurrent_executions().map(natural))
}

async fn mappings(client: &Client, name: &str) -> Read<Vec<Mapping>> {
    let answer = client.list_event_source_mappings().function_name(name).send().boxed().await.map_err(unread)?;
    Ok(answer.event_source_mappings().iter().map(mapping_in).collect())
}

fn mapping_in(mapping: &EventSourceMappingConfiguration) -> Mapping {
    Mapping {
        queue: mapping.event_source_arn().map(name_in).unwrap_or_default(),
        state: mapping.state().unwrap_or_default().to_owned(),
        reports_failures: mapping.function_response_types().contains(&FunctionResponseType::ReportBatchItemFailures),
        max_concurrency: mapping.scaling_config().and_then(|scaling| scaling.maximum_concurrency()).map(natural),
    }
}

pub(super) async fn account(config: &SdkConfig) -> Read<Account> {
    let answer = Client::new(config).get_account_settings().send().boxed().await.map_err(unread)?;
    let limit = answer.account_limit();
    let unreserved = limit.and_then(|limit| limit.unreserved_concurrent_executions()).map(natural);
    Ok(Account {
        concurrency: limit.map(|limit| natural(limit.concurrent_executions())).unwrap_or_default(),
        unreserved: unreserved.unwrap_or_default(),
    })
}
