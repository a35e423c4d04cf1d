package field

// The parts of a messages body that translators have in common. What they take
// is JSON text: strings are raw, without their quotes.
const (
	// NoParameters is the schema of a function that takes nothing.
	NoParameters = `{"type":"object","properties":{}}`
	// AnyObject is the response_format of an answer that is some JSON object.
	AnyObject = `{"type":"json_object"}`
)

// SchemaFormat is the response_format of an answer that fits a schema.
func SchemaFormat(schema []byte) []byte {
	return append(append([]byte(`{"type":"json_schema","json_schema":{"schema":`), schema...), "}}"...)
}

// Effort is the native effort of a word for how much a model thinks: "" where the model decides, as
// for words that nobody knows. off says that it does not think at all.
func Effort(word []byte) (native string, off bool) {
	switch string(word) {
	case "none":
		return "", true
	case "minimal", "low":
		return "low", false
	case "medium":
		return "medium", false
	case "high":
		return "high", false
	case "xhigh":
		return "xhigh", false
	case "max":
		return "max", false
	}
	return "", false
}

// AppendEffort appends a native effort, with a comma before it; nothing for "".
func AppendEffort(dst []byte, effort string) []byte {
	if effort == "" {
		return dst
	}
	return append(append(append(dst, `,"output_config":{"effort":"`...), effort...), `"}`...)
}

// AppendText appends a text block.
func AppendText(dst, text []byte) []byte {
	dst = append(dst, `{"type":"text","text":"`...)
	return append(append(dst, text...), `"}`...)
}

// AppendToolUse appends a call up to its input: that, an object, and a brace follow.
func AppendToolUse(dst, id, name []byte) []byte {
	dst = append(append(dst, `{"type":"tool_use","id":"`...), id...)
	dst = append(append(dst, `","name":"`...), name...)
	return append(dst, `","input":`...)
}

// AppendResult appends the result of a call up to its content: that and a brace follow.
func AppendResult(dst, id []byte) []byte {
	dst = append(append(dst, `{"type":"tool_result","tool_use_id":"`...), id...)
	return append(dst, `","content":`...)
}

// AppendTool appends a tool; one without a description has nil.
func AppendTool(dst, name, description, schema []byte) []byte {
	dst = append(append(dst, `{"name":"`...), name...)
	if description != nil {
		dst = append(append(dst, `","description":"`...), description...)
	}
	return append(append(append(dst, `","input_schema":`...), schema...), '}')
}

// Choice is how the model may use tools.
type Choice struct {
	Mode   string // auto, none, any or tool; empty is auto
	Name   []byte // of the tool to call; counts with tool only
	Single bool   // at most one call; the native none does not say so
}

// Append appends tool_choice, with a comma before it, unless it would say what
// holds anyway.
func (c Choice) Append(dst []byte) []byte {
	mode := c.Mode
	if mode == "" {
		mode = "auto"
	}
	single := c.Single && mode != "none"
	if mode == "auto" && !single {
		return dst
	}
	dst = append(append(append(dst, `,"tool_choice":{"type":"`...), mode...), '"')
	if mode == "tool" {
		dst = append(append(append(dst, `,"name":"`...), c.Name...), '"')
	}
	if single {
		dst = append(dst, `,"disable_parallel_tool_use":true`...)
	}
	return append(dst, '}')
}

// AppendMember appends a member with a comma before it; nothing where the value is nil.
func AppendMember(dst []byte, name string, value []byte) []byte {
	if value == nil {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	return append(dst, value...)
}
