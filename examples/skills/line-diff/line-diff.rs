//! line-diff is a command of WASI preview 1: input on standard input, result on standard
//! output. Build it with ../build.sh.

use std::io::{self, Read};
use std::process::exit;

fn main() {
    let mut input = String::new();
    let done = io::stdin()
        .read_to_string(&mut input)
        .map_err(|e| e.to_string())
        .and_then(|_| strings(&input))
        .and_then(|members| {
            let member = |name: &str| members.iter().find(|m| m.0 == name).map(|m| m.1.as_str()).ok_or(format!("there is no member {}", name));
            Ok(compare(member("old")?, member("new")?))
        });
    match done {
        Ok(result) => println!("{}", result),
        Err(problem) => {
            eprintln!("{}", problem);
            exit(1);
        }
    }
}

/// compare finds a longest common subsequence of lines, and tells what is not in it.
fn compare(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    // best[i][j] is how many lines old[i..] and new[j..] share.
    let width = new.len() + 1;
    let mut best = vec![0u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            best[i * width + j] = if old[i] == new[j] {
                best[(i + 1) * width + j + 1] + 1
            } else {
                best[(i + 1) * width + j].max(best[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut added, mut removed, mut diff) = (0, 0, 0, 0, String::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            i += 1;
            j += 1;
        } else if j == new.len() || i < old.len() && best[(i + 1) * width + j] >= best[i * width + j + 1] {
            diff += &format!("-{}\n", old[i]);
            removed += 1;
            i += 1;
        } else {
            diff += &format!("+{}\n", new[j]);
            added += 1;
            j += 1;
        }
    }
    format!("{{\"added\":{},\"removed\":{},\"diff\":{}}}", added, removed, quoted(&diff))
}

/// quoted is a text as JSON.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\n' => out += "\\n",
            '\t' => out += "\\t",
            '\r' => out += "\\r",
            c if c < ' ' => out += &format!("\\u{:04x}", c as u32),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// strings reads a JSON object whose members are all strings.
fn strings(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut rest = text.trim().strip_prefix('{').ok_or("the input is no object")?.trim_start();
    let mut out = Vec::new();
    while !rest.starts_with('}') {
        let (name, after) = string(rest)?;
        let after = after.trim_start().strip_prefix(':').ok_or("a colon is missing")?;
        let (value, after) = string(after.trim_start())?;
        out.push((name, value));
        rest = after.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    Ok(out)
}

/// string reads one JSON string, and returns what follows it.
fn string(text: &str) -> Result<(String, &str), String> {
    let mut chars = text.strip_prefix('"').ok_or("a string is missing")?.chars();
    let mut units: Vec<u16> = Vec::new();
    let mut buffer = [0u16; 2];
    loop {
        match chars.next().ok_or("a string does not end")? {
            '"' => break,
            '\\' => match chars.next().ok_or("a string does not end")? {
                'b' => units.push(8),
                'f' => units.push(12),
                'n' => units.push(10),
                'r' => units.push(13),
                't' => units.push(9),
                'u' => {
                    let digits: String = chars.by_ref().take(4).collect();
                    units.push(u16::from_str_radix(&digits, 16).map_err(|e| e.to_string())?);
                }
                c => units.extend_from_slice(c.encode_utf16(&mut buffer)),
            },
            c => units.extend_from_slice(c.encode_utf16(&mut buffer)),
        }
    }
    Ok((String::from_utf16(&units).map_err(|e| e.to_string())?, chars.as_str()))
}
