//! `docs/guide.md`, played: every request of it against the binary, and every reply compared. `OCTOPUS_GUIDE=write` puts
//! the replies into the page instead.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    env, fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide.md");
const SUBJECT: &str = "0c709005-0000-4000-8000-000000000dee";
const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef";
/// What stands between the outputs of two blocks.
const CUT: &str = "@@@@";
/// The address that the page has.
const ADDRESS: &str = "127.0.0.1:8000";

/// Ends the server when it falls.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A block of commands, and where its output stands in the page.
struct Block<'a> {
    commands: &'a str,
    said: &'a str,
}

/// [RT-01] what each route is sent and answers, in a user's shell, stands in the guide as it is.
#[test]
fn the_guide_says_what_the_service_answers() {
    let page = fs::read_to_string(GUIDE).unwrap();
    let blocks = blocks(&page);
    assert!(blocks.len() >= 15, "{} blocks", blocks.len());
    let (_server, address) = start();
    let outputs = play(&blocks, &address);
    assert_eq!(outputs.len(), blocks.len());
    if env::var("OCTOPUS_GUIDE").as_deref() == Ok("write") {
        return write(&page, &blocks, &outputs);
    }
    for (block, output) in blocks.iter().zip(&outputs) {
        assert_eq!(
            timeless(output),
            timeless(block.said),
            "after\n{}",
            block.commands
        );
    }
}

/// The blocks of `sh`, each with the `text` behind it, if there is one.
fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some((_, from)) = rest.split_once("\n```sh\n") {
        let (commands, after) = from.split_once("```\n").unwrap();
        let said = after
            .strip_prefix("```text\n")
            .map_or("", |text| text.split_once("```\n").unwrap().0);
        blocks.push(Block { commands, said });
        rest = after;
    }
    blocks
}

fn start() -> (Server, String) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("guide-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (tokens, ready) = (folder.join("tokens"), folder.join("ready"));
    fs::write(&tokens, format!("{TOKEN} {SUBJECT}\n")).unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_octopus-server"));
    server
        .args(["--dev", "--listen=127.0.0.1:0", "--auth=tokens"])
        .arg(format!("--tokens-file={}", tokens.display()))
        .arg(format!("--ready-file={}", ready.display()))
        .stdout(Stdio::null());
    let server = Server(server.spawn().unwrap());
    for _ in 0..600 {
        // The file is written whole, by a rename.
        if let Ok(address) = fs::read_to_string(&ready) {
            fs::remove_dir_all(&folder).unwrap();
            return (server, address.trim().to_owned());
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("the server does not serve");
}

/// Plays all blocks in one shell; their outputs.
fn play(blocks: &[Block<'_>], address: &str) -> Vec<String> {
    let commands = blocks
        .iter()
        .map(|block| format!("{}echo '{CUT}'\n", block.commands));
    let shell = Command::new("bash")
        .args(["-uc", &commands.collect::<String>()])
        .env("O", format!("http://{address}"))
        .env("SUBJECT", SUBJECT)
        .env("TOKEN", TOKEN)
        .output()
        .unwrap();
    assert!(
        shell.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&shell.stderr)
    );
    let output = String::from_utf8(shell.stdout).unwrap().replace(address, ADDRESS);
    let outputs = output.split(CUT).map(|said| said.trim_start().to_owned());
    outputs.take(blocks.len()).collect()
}

fn write(page: &str, blocks: &[Block<'_>], outputs: &[String]) {
    let mut written = page.to_owned();
    for (block, output) in blocks
        .iter()
        .zip(outputs)
        .filter(|(_, output)| !output.is_empty())
    {
        let place = |said: &str| format!("{}```\n```text\n{said}```\n", block.commands);
        written = written.replace(&place(block.said), &place(output));
    }
    fs::write(GUIDE, written).unwrap();
}

/// Without the moment of a record that was given none.
fn timeless(text: &str) -> String {
    const FIELD: &str = r#""timestamp":""#;
    let given = format!("{FIELD}2026-10-26T");
    let mut parts = text.split(FIELD);
    let mut timeless = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let whole = format!("{FIELD}{part}");
        if whole.starts_with(&given) {
            timeless.push_str(&whole);
        } else {
            let after = part.split_once('"').map_or("", |(_, after)| after);
            timeless.push_str(&format!("{FIELD}...\"{after}"));
        }
    }
    timeless
}
