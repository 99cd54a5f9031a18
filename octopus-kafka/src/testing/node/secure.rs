//! The settings of a node's secured listeners.

use std::{fs, io, path::Path};

use super::Secured;

/// Who may do all: the service by each of its sign-ins, and who needs none. Users of keys are not among them.
const SUPER_USERS: &str = "User:octopus;User:ANONYMOUS;User:CN=rcgen self signed cert";
const MODULES: &str = "org.apache.kafka.common.security";

/// A node's settings with three more listeners, on these ports.
pub(super) fn properties(
    plain: String,
    secured: &Secured,
    ports: [u16; 3],
    data: &Path,
) -> io::Result<String> {
    let (identity, clients) = (data.join("identity.pem"), data.join("clients.pem"));
    fs::write(&identity, &secured.identity)?;
    fs::write(&clients, &secured.clients)?;
    let [sasl, sasl_tls, mutual] = ports;
    let advertised = secured.advertised.unwrap_or(sasl);
    let mut lines: String = plain
        .lines()
        .map(|line| match line.split_once('=') {
            Some(("listeners", value)) => format!(
                "listeners={value},SASL://127.0.0.1:{sasl},SASLTLS://127.0.0.1:{sasl_tls},MUTUAL://127.0.0.1:{mutual}\n"
            ),
            Some(("advertised.listeners", value)) => format!(
                "advertised.listeners={value},SASL://localhost:{advertised},SASLTLS://localhost:{sasl_tls},\
                 MUTUAL://localhost:{mutual}\n"
            ),
            Some(("listener.security.protocol.map", value)) => {
                format!("listener.security.protocol.map={value},SASL:SASL_PLAINTEXT,SASLTLS:SASL_SSL,MUTUAL:SSL\n")
            }
            Some(_) | None => format!("{line}\n"),
        })
        .collect();
    for (name, value) in [
        (
            "sasl.enabled.mechanisms",
            "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        ),
        (
            "connections.max.reauth.ms",
            &secured.session.as_millis().to_string(),
        ),
        (
            "authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        ),
        ("super.users", SUPER_USERS),
        ("ssl.keystore.type", "PEM"),
        ("ssl.keystore.location", &identity.to_string_lossy()),
        ("ssl.truststore.type", "PEM"),
        ("ssl.truststore.location", &clients.to_string_lossy()),
        ("listener.name.mutual.ssl.client.auth", "required"),
    ] {
        lines += &format!("{name}={value}\n");
    }
    for listener in ["sasl", "sasltls"] {
        let password = &secured.password;
        for (mechanism, module) in [
            (
                "plain",
                format!("plain.PlainLoginModule required user_octopus=\"{password}\""),
            ),
            ("scram-sha-256", "scram.ScramLoginModule required".to_owned()),
            ("scram-sha-512", "scram.ScramLoginModule required".to_owned()),
            (
                "oauthbearer",
                "oauthbearer.OAuthBearerLoginModule required".to_owned(),
            ),
        ] {
            lines += &format!("listener.name.{listener}.{mechanism}.sasl.jaas.config={MODULES}.{module};\n");
        }
    }
    Ok(lines)
}

/// What the storage tool is told of users.
pub(super) fn users(secured: &Secured) -> Vec<String> {
    let password = &secured.password;
    [256, 512]
        .into_iter()
        .flat_map(|bits| {
            let user = format!("SCRAM-SHA-{bits}=[name=octopus,password={password}]");
            ["--add-scram".to_owned(), user]
        })
        .collect()
}
