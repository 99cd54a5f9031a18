//! The command line's part about Kafka's security, as clap reads it, and what its parts say together.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use octopus_kafka::security::{AwsCredentials, Secret};

use super::{LoginMechanism, Password, Sasl, Security, Tls, TokenEndpoint};
use crate::config::{
    Stop,
    endpoint::{OptionalUri, endpoint},
};

/// The flags of the way to Kafka.
#[derive(Debug, Args)]
#[command(next_help_heading = "Security of Kafka")]
pub(in crate::config) struct SecurityFlags {
    /// How Kafka is spoken to
    #[arg(
        long,
        env = "KAFKA_SECURITY_PROTOCOL",
        value_name = "P",
        default_value = "PLAINTEXT"
    )]
    kafka_security_protocol: Protocol,
    /// With SASL_PLAINTEXT and SASL_SSL: how to sign in
    #[arg(long, env = "KAFKA_SASL_MECHANISM", value_name = "M")]
    kafka_sasl_mechanism: Option<Mechanism>,
    /// For PLAIN and SCRAM; the password is in KAFKA_SASL_PASSWORD, or in a file
    #[arg(long, env = "KAFKA_SASL_USERNAME", value_name = "U")]
    kafka_sasl_username: Option<String>,
    /// A file with the password for PLAIN and SCRAM
    #[arg(long, env = "KAFKA_SASL_PASSWORD_FILE", value_name = "FILE")]
    kafka_sasl_password_file: Option<PathBuf>,
    /// For OAUTHBEARER, with KAFKA_OAUTH_CLIENT_ID and KAFKA_OAUTH_CLIENT_SECRET; KAFKA_OAUTH_TOKEN is a fixed token
    /// instead
    #[arg(long, env = "KAFKA_OAUTH_TOKEN_URL", value_name = "URL", value_parser = endpoint)]
    kafka_oauth_token_url: Option<OptionalUri>,
    /// The scope to ask for, where the token endpoint wants one
    #[arg(long, env = "KAFKA_OAUTH_SCOPE", value_name = "SCOPE")]
    kafka_oauth_scope: Option<String>,
    /// The CA to trust, in PEM [default: the system's roots]
    #[arg(long, env = "KAFKA_CA_FILE", value_name = "FILE")]
    kafka_ca_file: Option<PathBuf>,
    /// The certificate to show to brokers, in PEM (mutual TLS)
    #[arg(long, env = "KAFKA_CLIENT_CERT", value_name = "FILE")]
    kafka_client_cert: Option<PathBuf>,
    /// Its private key, in PEM and not encrypted
    #[arg(long, env = "KAFKA_CLIENT_KEY", value_name = "FILE")]
    kafka_client_key: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Protocol {
    /// TCP
    #[value(name = "PLAINTEXT")]
    Plaintext,
    /// TLS
    #[value(name = "SSL")]
    Ssl,
    /// TCP with a sign-in
    #[value(name = "SASL_PLAINTEXT")]
    SaslPlaintext,
    /// TLS with a sign-in
    #[value(name = "SASL_SSL")]
    SaslSsl,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mechanism {
    /// A name and a password
    #[value(name = "PLAIN")]
    Plain,
    /// A name and the proof of a password
    #[value(name = "SCRAM-SHA-256")]
    ScramSha256,
    /// The same, stronger
    #[value(name = "SCRAM-SHA-512")]
    ScramSha512,
    /// OIDC client credentials, or a fixed token
    #[value(name = "OAUTHBEARER")]
    OAuthBearer,
    /// A signature by AWS credentials
    #[value(name = "AWS_MSK_IAM")]
    AwsMskIam,
}

/// What a variable holds, by its name; one that is empty holds nothing.
pub(in crate::config) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

impl SecurityFlags {
    /// What they say together.
    pub(in crate::config) fn read(&self, is_dev: bool, variables: Variables<'_>) -> Result<Security, Stop> {
        let protocol = self.kafka_security_protocol;
        if is_dev && protocol != Protocol::Plaintext {
            return Err(refuse_protocol(
                protocol,
                "not together with --dev, which has its own broker",
            ));
        }
        Ok(Security {
            tls: self.tls()?,
            sasl: self.sasl(variables)?,
        })
    }

    fn tls(&self) -> Result<Option<Tls>, Stop> {
        let files = [
            ("--kafka-ca-file", self.kafka_ca_file.clone()),
            ("--kafka-client-cert", self.kafka_client_cert.clone()),
            ("--kafka-client-key", self.kafka_client_key.clone()),
        ];
        match self.kafka_security_protocol {
            Protocol::Plaintext | Protocol::SaslPlaintext => {
                for (flag, file) in files {
                    if let Some(file) = file {
                        let rule = "only together with --kafka-security-protocol SSL or SASL_SSL";
                        return Err(Stop::refused(flag, &file.to_string_lossy(), rule));
                    }
                }
                Ok(None)
            }
            Protocol::Ssl | Protocol::SaslSsl => {
                let [(_, ca_file), (cert_flag, cert), (key_flag, key)] = files;
                let identity = match (cert, key) {
                    (Some(cert), Some(key)) => Some((cert, key)),
                    (None, None) => None,
                    (Some(cert), None) => {
                        let rule = "only together with --kafka-client-key FILE";
                        return Err(Stop::refused(cert_flag, &cert.to_string_lossy(), rule));
                    }
                    (None, Some(key)) => {
                        let rule = "only together with --kafka-client-cert FILE";
                        return Err(Stop::refused(key_flag, &key.to_string_lossy(), rule));
                    }
                };
                Ok(Some(Tls { ca_file, identity }))
            }
        }
    }

    fn sasl(&self, variables: Variables<'_>) -> Result<Option<Sasl>, Stop> {
        let protocol = self.kafka_security_protocol;
        match (protocol, self.kafka_sasl_mechanism) {
            (Protocol::Plaintext | Protocol::Ssl, mechanism) => {
                let rule = "only together with --kafka-security-protocol SASL_SSL or SASL_PLAINTEXT";
                match mechanism {
                    Some(mechanism) => Err(Stop::refused("--kafka-sasl-mechanism", &name(mechanism), rule)),
                    None => self.none_but(&[], rule).map(|()| None),
                }
            }
            (Protocol::SaslPlaintext | Protocol::SaslSsl, None) => Err(refuse_protocol(
                protocol,
                "only together with --kafka-sasl-mechanism M",
            )),
            (_, Some(mechanism)) => match mechanism {
                Mechanism::Plain => self.login(mechanism, LoginMechanism::Plain, variables),
                Mechanism::ScramSha256 => self.login(mechanism, LoginMechanism::ScramSha256, variables),
                Mechanism::ScramSha512 => self.login(mechanism, LoginMechanism::ScramSha512, variables),
                Mechanism::OAuthBearer => self.oauth(variables),
                Mechanism::AwsMskIam => self.aws(variables),
            }
            .map(Some),
        }
    }

    fn login(
        &self,
        mechanism: Mechanism,
        how: LoginMechanism,
        variables: Variables<'_>,
    ) -> Result<Sasl, Stop> {
        self.none_but(
            &["--kafka-sasl-username", "--kafka-sasl-password-file"],
            "only together with --kafka-sasl-mechanism OAUTHBEARER",
        )?;
        let Some(username) = self.kafka_sasl_username.clone().filter(|name| !name.is_empty()) else {
            return Err(refuse_mechanism(
                mechanism,
                "only together with --kafka-sasl-username U",
            ));
        };
        let password = match (
            self.kafka_sasl_password_file.clone(),
            variables("KAFKA_SASL_PASSWORD"),
        ) {
            (None, Some(password)) => Password::Given(password.into()),
            (Some(file), None) => Password::File(file),
            (Some(file), Some(_)) => {
                return Err(Stop::refused(
                    "--kafka-sasl-password-file",
                    &file.to_string_lossy(),
                    "not together with KAFKA_SASL_PASSWORD",
                ));
            }
            (None, None) => {
                return Err(refuse_mechanism(
                    mechanism,
                    "only together with KAFKA_SASL_PASSWORD or --kafka-sasl-password-file FILE",
                ));
            }
        };
        Ok(Sasl::Login(how, username, password))
    }

    fn oauth(&self, variables: Variables<'_>) -> Result<Sasl, Stop> {
        self.none_but(
            &["--kafka-oauth-token-url", "--kafka-oauth-scope"],
            "only together with --kafka-sasl-mechanism PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
        )?;
        let url = self.kafka_oauth_token_url.as_ref().and_then(|url| url.0.clone());
        match (url, variables("KAFKA_OAUTH_TOKEN")) {
            (Some(url), None) => {
                let (Some(client_id), Some(client_secret)) = (
                    variables("KAFKA_OAUTH_CLIENT_ID"),
                    variables("KAFKA_OAUTH_CLIENT_SECRET"),
                ) else {
                    return Err(Stop::refused(
                        "--kafka-oauth-token-url",
                        &url.to_string(),
                        "only together with KAFKA_OAUTH_CLIENT_ID and KAFKA_OAUTH_CLIENT_SECRET",
                    ));
                };
                Ok(Sasl::Endpoint(TokenEndpoint {
                    url,
                    client_id,
                    client_secret: client_secret.into(),
                    scope: self.kafka_oauth_scope.clone().filter(|scope| !scope.is_empty()),
                }))
            }
            (None, Some(token)) => Ok(Sasl::Token(token.into())),
            (Some(url), Some(_)) => Err(Stop::refused(
                "--kafka-oauth-token-url",
                &url.to_string(),
                "not together with KAFKA_OAUTH_TOKEN",
            )),
            (None, None) => Err(refuse_mechanism(
                Mechanism::OAuthBearer,
                "only together with --kafka-oauth-token-url URL, or with KAFKA_OAUTH_TOKEN",
            )),
        }
    }

    fn aws(&self, variables: Variables<'_>) -> Result<Sasl, Stop> {
        self.none_but(&[], "not together with --kafka-sasl-mechanism AWS_MSK_IAM")?;
        let refused = |rule| Err(refuse_mechanism(Mechanism::AwsMskIam, rule));
        if self.kafka_security_protocol != Protocol::SaslSsl {
            return refused("only together with --kafka-security-protocol SASL_SSL");
        }
        let (Some(access_key_id), Some(secret_access_key)) =
            (variables("AWS_ACCESS_KEY_ID"), variables("AWS_SECRET_ACCESS_KEY"))
        else {
            return refused("only together with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
        };
        let Some(region) = variables("AWS_REGION").or_else(|| variables("AWS_DEFAULT_REGION")) else {
            return refused("only together with AWS_REGION");
        };
        Ok(Sasl::Aws {
            region,
            credentials: AwsCredentials {
                access_key_id,
                secret_access_key: secret_access_key.into(),
                session_token: variables("AWS_SESSION_TOKEN").map(Secret::from),
            },
        })
    }

    /// Refuses each flag of a sign-in but these.
    fn none_but(&self, allowed: &[&str], rule: &str) -> Result<(), Stop> {
        let file = self.kafka_sasl_password_file.clone();
        for (flag, value) in [
            ("--kafka-sasl-username", self.kafka_sasl_username.clone()),
            (
                "--kafka-sasl-password-file",
                file.map(|file| file.to_string_lossy().into_owned()),
            ),
            (
                "--kafka-oauth-token-url",
                self.kafka_oauth_token_url.as_ref().map(ToString::to_string),
            ),
            ("--kafka-oauth-scope", self.kafka_oauth_scope.clone()),
        ] {
            if let Some(value) = value.filter(|value| !value.is_empty() && !allowed.contains(&flag)) {
                return Err(Stop::refused(flag, &value, rule));
            }
        }
        Ok(())
    }
}

fn name(value: impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

fn refuse_protocol(protocol: Protocol, rule: &str) -> Stop {
    Stop::refused("--kafka-security-protocol", &name(protocol), rule)
}

fn refuse_mechanism(mechanism: Mechanism, rule: &str) -> Stop {
    Stop::refused("--kafka-sasl-mechanism", &name(mechanism), rule)
}

#[cfg(test)]
mod tests;
