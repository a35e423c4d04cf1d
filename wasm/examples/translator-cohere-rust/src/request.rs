//! A body of the client's protocol becomes one of messages.

use alloc::vec::Vec;
use corenode::*;

/// Fields whose values stand in a body of messages as they are, under another name or the same.
const SAME: [(&[u8], &str); 10] = [
    (b"model", "model"),
    (b"stream", "stream"),
    (b"max_tokens", "max_tokens"),
    (b"temperature", "temperature"),
    (b"p", "top_p"),
    (b"stop_sequences", "stop_sequences"),
    (b"seed", "seed"),
    (b"frequency_penalty", "frequency_penalty"),
    (b"presence_penalty", "presence_penalty"),
    (b"k", "top_k"),
];

/// Fields that ask for nothing that would change the answer here. Every call is constrained
/// to its tool's schema, so strict_tools is always on.
const IGNORED: [&[u8]; 4] = [b"safety_mode", b"citation_options", b"strict_tools", b"priority"];

pub fn translate(text: &[u8], body: &mut Out) -> Result<(), Stop> {
    let mut j = Json::new(text);
    let mut messages: Option<&[u8]> = None;
    let mut thinks: &[u8] = br#"{"type":"disabled"}"#;
    body.byte(b'{');
    j.object();
    while let Some(name) = j.member() {
        let value = j.value();
        if value == b"null" {
            continue;
        }
        if let Some((_, native)) = SAME.iter().find(|(client, _)| *client == name) {
            if name != b"k" || value != b"0" {
                member(body, native).put(value);
            }
            continue;
        }
        match name {
            b"messages" => messages = Some(value),
            b"tools" => tools(value, member(body, "tools"))?,
            b"tool_choice" => choice(value, member(body, "tool_choice"))?,
            b"response_format" => format(value, member(body, "response_format"))?,
            b"thinking" => thinks = value,
            b"documents" if value == b"[]" => {}
            b"logprobs" | b"raw_prompting" if value == b"false" => {}
            _ if IGNORED.contains(&name) => {}
            _ => return Err(refuse(name, "this field is not served here")),
        }
    }
    if !j.end() {
        return Err(refuse("", "the body is no JSON object"));
    }
    thinking(thinks, body)?;
    conversation(messages.ok_or(refuse("messages", "it is missing"))?, body)?;
    body.byte(b'}');
    Ok(())
}

/// Begins a member of an object of which something may be written.
fn member<'o>(out: &'o mut Out, name: &str) -> &'o mut Out {
    if out.as_bytes().last() != Some(&b'{') {
        out.byte(b',');
    }
    out.byte(b'"').put(name).put("\":")
}

/// Begins an element of an array of which something may be written.
fn element(out: &mut Out) -> &mut Out {
    if out.as_bytes().last() != Some(&b'[') {
        out.byte(b',');
    }
    out
}

/// The values of an object's members that have these names.
fn members<'a, const N: usize>(object: &'a [u8], names: [&str; N]) -> Option<[&'a [u8]; N]> {
    let mut j = Json::new(object);
    let mut found: [&[u8]; N] = [b""; N];
    j.object();
    while let Some(name) = j.member() {
        let value = j.value();
        if let Some(i) = names.iter().position(|n| n.as_bytes() == name) {
            found[i] = if value == b"null" { b"" } else { value };
        }
    }
    if j.end() {
        Some(found)
    } else {
        None
    }
}

/// A value that must be a string, with its quotes.
fn text<'a>(value: &'a [u8], field: &str) -> Result<&'a [u8], Stop> {
    string(value).map(|_| value).ok_or(refuse(field, "field required, a string"))
}

fn tools(all: &[u8], out: &mut Out) -> Result<(), Stop> {
    let mut j = Json::new(all);
    out.byte(b'[');
    j.array();
    while j.element() {
        let [function] = members(j.value(), ["function"]).ok_or(refuse("tools", "a tool is an object"))?;
        let [name, description, parameters] =
            members(function, ["name", "description", "parameters"]).ok_or(refuse("tools", "a tool has a function"))?;
        member(element(out).byte(b'{'), "name").put(text(name, "tools.function.name")?);
        if !description.is_empty() {
            member(out, "description").put(description);
        }
        let none: &[u8] = br#"{"type":"object"}"#;
        member(out, "input_schema").put(if parameters.is_empty() { none } else { parameters }).byte(b'}');
    }
    out.byte(b']');
    if j.end() {
        Ok(())
    } else {
        Err(refuse("tools", "want an array"))
    }
}

fn choice(value: &[u8], out: &mut Out) -> Result<(), Stop> {
    match value {
        b"\"REQUIRED\"" => out.put(r#"{"type":"any"}"#),
        b"\"NONE\"" => out.put(r#"{"type":"none"}"#),
        _ => return Err(refuse("tool_choice", "want REQUIRED or NONE")),
    };
    Ok(())
}

fn format(value: &[u8], out: &mut Out) -> Result<(), Stop> {
    let [kind, schema, older] = members(value, ["type", "json_schema", "schema"]).ok_or(refuse("response_format", "want an object"))?;
    let schema = if schema.is_empty() { older } else { schema };
    match (kind, schema) {
        (b"\"text\"", b"") | (b"\"json_object\"", b"") => out.put("{\"type\":").put(kind).byte(b'}'),
        (b"\"json_object\"", _) => out.put(r#"{"type":"json_schema","json_schema":{"name":"answer","schema":"#).put(schema).put("}}"),
        _ => return Err(refuse("response_format.type", "want text or json_object")),
    };
    Ok(())
}

/// Writes how the model may think. A client that does not ask takes the first block for
/// text, so there is no thinking then; one that names no budget leaves it to the model.
fn thinking(value: &[u8], out: &mut Out) -> Result<(), Stop> {
    let [kind, budget] = members(value, ["type", "token_budget"]).ok_or(refuse("thinking", "want an object"))?;
    match kind {
        b"\"disabled\"" => {
            member(out, "thinking").put(r#"{"type":"disabled"}"#);
        }
        b"\"enabled\"" if budget.is_empty() => {}
        b"\"enabled\"" => {
            member(out, "thinking").put(r#"{"type":"enabled","budget_tokens":"#).put(budget).byte(b'}');
        }
        _ => return Err(refuse("thinking.type", "want enabled or disabled")),
    }
    Ok(())
}

/// Writes the messages, and what the system says beside them.
fn conversation(all: &[u8], body: &mut Out) -> Result<(), Stop> {
    let mut system = Out::new();
    let mut after_tool = false; // the results of one turn are one message
    let mut j = Json::new(all);
    system.byte(b'[');
    member(body, "messages").byte(b'[');
    j.array();
    while j.element() {
        let m = Message::read(j.value())?;
        if after_tool && m.role != b"\"tool\"" {
            body.put("]}");
        }
        match m.role {
            b"\"system\"" | b"\"developer\"" => blocks(m.content, &mut system)?,
            b"\"user\"" => {
                element(body).put(r#"{"role":"user","content":["#);
                blocks(m.content, body)?;
                body.put("]}");
            }
            b"\"assistant\"" => m.assistant(element(body))?,
            b"\"tool\"" => {
                if !after_tool {
                    element(body).put(r#"{"role":"user","content":["#);
                }
                m.result(element(body))?;
            }
            _ => return Err(refuse("messages.role", "want system, user, assistant or tool")),
        }
        after_tool = m.role == b"\"tool\"";
    }
    if !j.end() {
        return Err(refuse("messages", "want an array"));
    }
    body.put(if after_tool { "]}]" } else { "]" });
    if system.as_bytes().len() > 1 {
        member(body, "system").put(system.byte(b']').as_bytes());
    }
    Ok(())
}

struct Message<'a> {
    role: &'a [u8],
    content: &'a [u8],
    calls: &'a [u8],
    plan: &'a [u8],
    call: &'a [u8],
}

impl<'a> Message<'a> {
    fn read(text: &'a [u8]) -> Result<Self, Stop> {
        let [role, content, calls, plan, call] = members(text, ["role", "content", "tool_calls", "tool_plan", "tool_call_id"])
            .ok_or(refuse("messages", "a message is an object"))?;
        Ok(Message { role, content, calls, plan, call })
    }

    fn assistant(&self, out: &mut Out) -> Result<(), Stop> {
        out.put(r#"{"role":"assistant","content":["#);
        if !self.plan.is_empty() {
            block(self.plan, out)?;
        }
        if !self.content.is_empty() {
            blocks(self.content, out)?;
        }
        if !self.calls.is_empty() {
            let mut j = Json::new(self.calls);
            j.array();
            while j.element() {
                let [id, function] = members(j.value(), ["id", "function"]).ok_or(refuse("messages.tool_calls", "want objects"))?;
                let [name, arguments] =
                    members(function, ["name", "arguments"]).ok_or(refuse("messages.tool_calls.function", "want an object"))?;
                element(out).put(r#"{"type":"tool_use","id":"#).put(text(id, "messages.tool_calls.id")?);
                out.put(",\"name\":").put(text(name, "messages.tool_calls.function.name")?);
                out.put(",\"input\":").put(object(arguments)?).byte(b'}');
            }
            if !j.end() {
                return Err(refuse("messages.tool_calls", "want an array"));
            }
        }
        out.put("]}");
        Ok(())
    }

    /// Writes what a tool gave: text as it is, documents as the text of their data.
    fn result(&self, out: &mut Out) -> Result<(), Stop> {
        out.put(r#"{"type":"tool_result","tool_use_id":"#).put(text(self.call, "messages.tool_call_id")?).put(",\"content\":[");
        blocks(self.content, out)?;
        out.put("]}");
        Ok(())
    }
}

/// What a call's arguments say, which are a string that holds an object. Absent or blank they are none.
fn object(arguments: &[u8]) -> Result<Vec<u8>, Stop> {
    let said = if arguments.is_empty() { Some(Vec::new()) } else { string(arguments).map(unescape) };
    match said {
        Some(said) if said.iter().all(|b| b" \t\r\n".contains(b)) => Ok(Vec::from("{}")),
        Some(said) if members(&said, []).is_some() => Ok(said),
        _ => Err(refuse("messages.tool_calls.function.arguments", "want a string of a JSON object")),
    }
}

/// Writes a content, which is a string or an array of parts.
fn blocks(content: &[u8], out: &mut Out) -> Result<(), Stop> {
    if string(content).is_some() {
        return block(content, out);
    }
    let mut j = Json::new(content);
    j.array();
    while j.element() {
        let [kind, text, document] =
            members(j.value(), ["type", "text", "document"]).ok_or(refuse("messages.content", "a part is an object"))?;
        match kind {
            b"\"text\"" => block(text, out)?,
            b"\"thinking\"" => {} // what the model thought before is not read again
            b"\"document\"" => {
                let [data] = members(document, ["data"]).ok_or(refuse("messages.content.document", "want an object"))?;
                match string(data) {
                    Some(_) => block(data, out)?,
                    None => {
                        element(out).put(r#"{"type":"text","text":""#).escaped(data).put("\"}");
                    }
                }
            }
            _ => return Err(refuse("messages.content.type", "only text is served")),
        }
    }
    if j.end() {
        Ok(())
    } else {
        Err(refuse("messages.content", "want a string or an array"))
    }
}

/// Writes a block of text, of a value that is a string.
fn block(value: &[u8], out: &mut Out) -> Result<(), Stop> {
    string(value).ok_or(refuse("messages.content", "want a string"))?;
    if value != b"\"\"" {
        element(out).put(r#"{"type":"text","text":"#).put(value).byte(b'}');
    }
    Ok(())
}
