package main

import (
	"github.com/spf13/cobra"

	"corenode/bench/skills"
)

func skillsCommand() *cobra.Command {
	o := skills.Defaults()
	var key, jsonFile string
	cmd := &cobra.Command{
		Use:   "skills --url URL --model MODEL --file FILE.jsonl",
		Short: "How many prompts with known answers a server gets right",
		Long: `Ask a server that speaks the messages protocol every prompt of a file and judge
the answers by the rules beside them. Each line of the file is one case:

  {"skill": "arithmetic", "name": "carry",
   "body": {"messages": [{"role": "user", "content": "What is 17 + 25?"}]},
   "expect": {"text": "\\b42\\b"}}

  body     a messages request without model and stream
  expect   rules that must all hold: text and thinking must match a regular
           expression, not must not match the text, json is equal to the text as
           JSON, tools are the calls in order (name, and input unless it is
           left out), stop is the stop_reason (end_turn, or tool_use with tools)

The table says for each skill how many answers were right, how many the model
ended by itself, and how many went round in circles.

The exit status is 1 when a skill is below --min-score.`,
		Example: `  corebench skills --url http://127.0.0.1:8080 --model core-1.1-mini --file skills.jsonl
  corebench skills --url http://127.0.0.1:8080 --model core-1.1 --file skills.jsonl \
    --temperature -1 --only tools,arithmetic --min-score 0.88 --json skills.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			keys, err := readKeys([]string{key})
			if err != nil {
				return err
			}
			o.Key = keys[0]
			r, err := skills.Run(cmd.Context(), o, progress(cmd))
			if err != nil {
				return err
			}
			return deliver(cmd, r, jsonFile)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.URL, "url", "", "address of the server; required")
	f.StringVar(&key, "key", "", "sent as x-api-key; @FILE reads it from there")
	f.StringVar(&o.Model, "model", "", "the model that is asked; required")
	f.StringVar(&o.File, "file", "", "the cases, one JSON object on each line; required")
	f.Float64Var(&o.Temperature, "temperature", o.Temperature, "temperature of every request; negative is the server's default")
	f.StringSliceVar(&o.Only, "only", nil, "skills to ask for; all when empty")
	f.IntVar(&o.Clients, "clients", o.Clients, "requests in the air at once")
	f.IntVar(&o.TokensMax, "max-tokens", o.TokensMax, "max_tokens of cases that do not say")
	f.DurationVar(&o.Timeout, "timeout", o.Timeout, "bound of one request")
	f.Float64Var(&o.MinScore, "min-score", 0, "gate: share that every skill must get right")
	f.StringVar(&jsonFile, "json", "", "file to write the result to, with every wrong answer; METHOD.md documents it")
	return cmd
}
