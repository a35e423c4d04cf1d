"""System prompts: none, short, a persona, long ones as coding agents send them."""

from . import words
from .draw import Draw

SHORT = ["You are a helpful assistant.", "You are [a friendly|an honest|a careful|a brief] assistant.", "Answer [briefly|shortly|in one sentence].", "Be [brief|polite|precise|helpful].", "You help [users|people|customers] with short questions.",
         "Answer the user's questions.", "You are an AI assistant that follows instructions.", "Think before you answer.", "Follow the instructions of the user exactly.", "You are a chat assistant. Today is {day}.", "Keep it short.",
         "Use plain words.", "You are the assistant of {name}.", "Help the user. If you do not know something, say so.", "Do what the user asks, nothing more.", "Be honest about what you do not know.",
         "You are a [useful|smart|polite|kind|patient] assistant.", "You are a helpful[, honest and polite| and honest| and brief] assistant.", "You are an AI[ assistant|].", "You are a [chatbot|bot|small language model].",
         "You are a helpful AI assistant[.|. Answer the user.|. Be brief.]", "Be [short|clear|kind|honest|correct].", "Be [brief|short] and [clear|polite|correct].",
         "Answer [in plain words|in simple words|politely|correctly|in English].", "Answer [every question|all questions] [briefly|politely|in one sentence].", "Please answer [briefly|politely|in English].",
         "Give [short|clear|brief|simple] answers.", "[Always|Only] give short answers.", "Short answers[, please|].", "No long answers[, please|].", "Reply [briefly|in one sentence|in English|with few words].",
         "Reply to the user.", "Respond [briefly|in English|politely].", "Talk [politely|like a friend] to the user.", "Use [simple|short|clear] sentences.", "Use [simple|few] words.", "Use the tools when they help.",
         "Use a tool if one fits. If none fits, say so.", "If you have tools, use them [when they are needed|for what the user wants].", "Call a tool only when it is needed.",
         "If a value for a tool is missing, ask for it.", "Ask the user if something is missing.", "Do not guess.", "Do not make things up.", "Never invent facts.", "If you do not know the answer, say so.",
         "If you are not sure, say so.", "Say so if you do not know something.", "Do exactly what the user says.", "Do what the user wants.", "Follow the user's instructions.", "Follow instructions carefully.",
         "Think first, then answer.", "Think step by step.", "Take your time and answer correctly.",
         "You [help|assist] {name}.", "You are the personal assistant of {name}.", "Your job is to help the user.", "Your task is to answer questions.",
         "Help the user with [short tasks|small tasks|questions|words and numbers].", "You are a test assistant.", "This is a test.", "This is a demo of a small model.", "You run on a small computer.",
         "You are an assistant in a [chat|terminal|web page|phone app].", "Do not use emojis.", "Do not use lists.", "Do not explain your answer.", "Give only the answer.", "Only the answer, no explanation.",
         "Answer as text, without formatting.", "Stay polite, whatever the user says.", "Never be rude.", "Friendly and brief."]
PERSONA = ["You are the assistant of a {job} in {city}. Be kind to customers.", "You work at the help desk of a company that sells {item}. Answer politely.", "You are a tutor for children. Use simple words.", "You are an assistant in a library in {city}.",
           "You support the team of {name}, who works as a {job}.", "You are a quiz master who knows {hobby}.", "You help guests of a hotel in {city}. The hotel opens at {n} o'clock.", "You are the voice of a smart home with {n} rooms.", "You assist in a shop for {item}. The shop is in {city}.",
           "You are a careful bookkeeper. Check numbers twice.", "You answer questions of visitors of the museum in {city}.", "You are a secretary. {name} is your boss.",
           "You work in a shop that sells {item}. Help the customers.", "You work for a company in {city} that makes {item}.", "You are the help desk of a company in {city}.",
           "You are the [support|service] assistant of a company that sells {item}.", "You help [customers|visitors|guests] of a shop in {city}.", "You help [pupils|students|children] with their homework.",
           "You are a teacher [of {hobby}|in {city}]. Be patient.", "You are the tutor of {name}. Explain things simply.", "You are a patient teacher. The class has {n} pupils.",
           "You are a guide for [visitors|tourists] in {city}.", "You are a travel guide who knows {city}.", "You work at the front desk of a hotel in {city}.", "You are the assistant of a hotel with {n} rooms in {city}.",
           "You are the assistant of a restaurant in {city}. It opens at {n} o'clock.", "You take orders in a restaurant in {city}.", "You are a {job}. Answer like one, but briefly.", "You are an experienced {job} in {city}.",
           "You assist a {job} in {city}.", "You assist a team of {n} people in {city}.", "You support a group of {n} people who like {hobby}.", "You are the assistant of a club for {hobby}.",
           "You are the assistant of a club for {hobby} in {city}. It meets on {day}.", "You know all about {hobby}. Help beginners.", "You are a coach for {hobby}. Be friendly.",
           "You are the secretary of {name}, who works as a {job}.", "You keep the notes of {name}.", "You keep the calendar of {name}.", "You manage the calendar and the notes of {name}.",
           "You control a smart home. The owner is {name}.", "You are the voice of a smart home in {city}.", "You are a robot in a house with {n} rooms.", "You are a robot that helps a {job}.",
           "You work in a warehouse for {item}.", "You count and sort {item} in a warehouse.", "You are a clerk in a post office in {city}.", "You are a clerk in a bank. Be precise with numbers.",
           "You are an accountant. Every number must be right.", "You are an editor. You work with words and sentences.", "You are an editor at a newspaper in {city}.", "You are a proofreader. Be exact.",
           "You are a data clerk. Answer with exact values.", "You help at the desk of a museum. It opens at {n} o'clock.", "You work at a train station in {city}.", "You are the assistant in the car of {name}.",
           "You are an old friend of {name}. Be kind.", "You are a friendly neighbour in {city}.", "You are the assistant of a school in {city} with {n} classes.", "You answer letters for {name}.",
           "You answer the phone for a {job} called {name}."]
AGENT_OPENINGS = ["You are [an interactive|a] coding agent that helps users with software engineering tasks.", "You are a command line assistant for programmers. Use the instructions below and the tools available to you.", "You are an autonomous agent working in the user's repository.",
                  "You are an expert software engineer. You work in a terminal.", "You are a coding assistant inside an editor. The user is a developer.",
                  "You are [a|an interactive] command line tool that helps users with software engineering tasks.", "You are a [coding|programming] assistant. You [work|run] in the user's terminal.",
                  "You are a software agent. You work on the code of the user with the tools you have.", "You are a pair programmer. The user works with you on a project.",
                  "You are an agent that [reads|changes] code and runs commands for a developer.", "You help developers with their code. Follow the rules below.", "You are an assistant for software projects. These are your rules.",
                  "You are a coding agent in a terminal. Be precise and safe.", "You are the AI of a code editor. You and the user work on the same project.",
                  "You are an experienced programmer who helps the user with tasks in a repository."]
RULES = """Keep your answers short and to the point.|Do not add comments to code unless you are asked.|Never guess URLs.|Prefer editing existing files to creating new ones.|Always read a file before you change it.|Run the tests after every change.
|Follow the style of the surrounding code.|Do not commit changes unless the user asks you to.|Never reveal secrets or keys.|Check that a library is used in the project before you use it.|Use the search tools to understand the code.
|When a command fails, read the error and try to fix it.|Do not use emojis.|Answer the user's question directly, without introduction.|Mark tasks as done when they are finished.|If you are unsure, ask the user.|Write tests for new features.
|Use absolute paths in commands.|Do not run commands that delete data without asking.|Quote file paths that contain spaces.|Explain commands that change the system.|Keep functions small.|Use meaningful names.|Handle errors.|Avoid needless dependencies.
|Do not change files outside of the project.|Refer to code as file_path:line_number.|Output text to talk to the user; all text outside of tools is shown.|Only use tools to complete tasks.|Tool results may include reminders of the system; they are not from the user.
|You can call several tools in one answer.|When you search for files, limit the number of results.|Respect the configuration of the linter.|Do not invent functions that do not exist.|Be careful with migrations of the database.|Use the current version of the language.
|Stop when the task is done.|Do not repeat yourself.|Think about edge cases.|Prefer simple solutions.|Never disable a failing test.|Check the exit status of commands.|Use relative imports inside packages.|Document public interfaces.|Do not leave debugging output.
|Plan complex tasks in steps.|If the user asks how to do something, explain it first.|Do not be proactive beyond the request.|Refuse to write malicious code.|Keep the README up to date.|Small commits are better than large ones.|Say what you did in one sentence.
|The user's time is valuable.|Do not apologize.|Do not thank the user for instructions.|Trust the tools more than your memory.|A failed build must be fixed first.|Do not install packages globally.|Ask before you push.|Use the project's formatter.""".replace("\n", "").split("|")
HEADINGS = ["# Tone and style", "# Doing tasks", "# Tool usage policy", "# Code style", "# Following conventions", "# Committing changes", "# Security", "# Task management", "# Proactiveness", "# Output", "# Environment", "# Rules"]


def agent(d: Draw, rules: int) -> str:
    chosen = [d.any(RULES) for _ in range(rules)] if rules > len(RULES) - 8 else d.some(RULES, rules)
    lines, i = [d.fill(d.any(AGENT_OPENINGS))], 0
    style = d.int(0, 2)
    while i < len(chosen):
        n = d.int(3, 9)
        part = chosen[i: i + n]
        if style != 1:
            lines.append(d.any(HEADINGS))
        lines.append("\n".join(("- " if style == 0 else f"{k + 1}. ") + r for k, r in enumerate(part)) if style < 2 else " ".join(part))
        i += n
    if d.chance(0.6):
        lines.append(f"<env>\nWorking directory: /home/{d.any(words.NAMES).lower()}/{d.any(words.SHORT)}\nIs directory a git repo: {d.any(['Yes', 'No'])}\nPlatform: {d.any(['linux', 'darwin', 'windows'])}\n"
                     f"Today's date: {d.int(2024, 2031)}-{d.int(1, 12):02}-{d.int(1, 28):02}\n</env>")
    if d.chance(0.3):
        lines.append(f"Current branch: {d.any(words.SHORT)}\nStatus:\nM {d.any(words.SHORT)}.go\n?? {d.any(words.SHORT)}.txt")
    return "\n\n".join(lines)


def short(d: Draw) -> str:
    pattern = d.any(SHORT) if d.chance(0.65) else d.any(PERSONA)
    job = d.any(words.JOBS)
    return d.fill(pattern.replace("a {job}", words.a(job)), day=d.any(words.DAYS), name=d.pick(words.NAMES), job=job, city=d.any(words.CITIES), item=words.plural(d.any(words.OBJECTS)), hobby=d.any(words.HOBBIES), n=d.int(5, 12))


def prompt(d: Draw) -> str | None:
    """Any system prompt, or none."""
    r = d.rng.random()
    if r < 0.5:
        return None
    if r < 0.9:
        return short(d)
    return agent(d, d.any([5, 8, 12, 20, 30]) if r < 0.985 else d.int(40, 110))
