//! The releases of Apache Kafka that the tests run, and their jars.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    str::FromStr,
};

/// A release of Apache Kafka.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Release {
    /// 3.9.2, of the last line before 4.0.
    Kafka3,
    /// 4.4.0.
    #[default]
    Kafka4,
}

impl Release {
    /// Its number, as Maven Central has it.
    #[must_use]
    pub const fn version(self) -> &'static str {
        match self {
            Self::Kafka3 => "3.9.2",
            Self::Kafka4 => "4.4.0",
        }
    }

    /// The folder of its jars below `home`. They are fetched once.
    pub(super) fn jars(self, home: &Path) -> io::Result<PathBuf> {
        let version = self.version();
        let jars = home.join(format!("jars-{version}"));
        if jars.join("complete").exists() {
            return Ok(jars);
        }
        fs::create_dir_all(&jars)?;
        let pom = home.join(format!("pom-{version}.xml"));
        fs::write(&pom, POM.replace("VERSION", version))?;
        let fetch = Command::new("mvn")
            .args(["-q", "-B", "-f"])
            .arg(&pom)
            .arg("dependency:copy-dependencies")
            .arg(format!("-DoutputDirectory={}", jars.display()))
            .stdout(Stdio::null())
            .status()?;
        if !fetch.success() {
            return Err(io::Error::other("Maven could not fetch Apache Kafka"));
        }
        File::create(jars.join("complete"))?;
        Ok(jars)
    }
}

impl FromStr for Release {
    type Err = io::Error;

    fn from_str(version: &str) -> io::Result<Self> {
        [Self::Kafka3, Self::Kafka4]
            .into_iter()
            .find(|release| release.version() == version)
            .ok_or_else(|| io::Error::other("the tests know Apache Kafka 3.9.2 and 4.4.0"))
    }
}

const POM: &str = r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>octopus</groupId>
  <artifactId>kafka-under-test</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>VERSION</version>
      <exclusions><exclusion><groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId></exclusion></exclusions>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>VERSION</version>
      <exclusions><exclusion><groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId></exclusion></exclusions>
    </dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.1</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId><version>2.25.1</version></dependency>
  </dependencies>
</project>
"#;
