package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// oneTimeout bounds one request that a model computes.
const oneTimeout = 10 * time.Minute

// Answer is one streamed reply, as its reader saw it.
type Answer struct {
	First  time.Duration // from before the request is written to the first output
	Whole  time.Duration // to the end of the stream
	Text   string
	Input  int // prompt tokens that were computed, as the reply's usage says
	Cached int // prompt tokens from the prefix cache
	Output int // tokens of the answer
}

// Decode is the time that the tokens after the first one took.
func (a Answer) Decode() time.Duration { return a.Whole - a.First }

// Ask sends one streaming request over a connection of its own.
func Ask(ctx context.Context, addr string, request []byte) (Answer, error) {
	const delta = "event: content_block_delta\n"
	var first time.Time
	arrived := func(body []byte) {
		if first.IsZero() && bytes.Contains(body, []byte(delta)) {
			first = time.Now()
		}
	}
	begun, rep, err := exchange(ctx, addr, request, arrived)
	whole := time.Since(begun)
	if err != nil {
		return Answer{}, err
	}
	if !countEvents(rep.body).complete {
		return Answer{}, fmt.Errorf("a stream does not end with message_stop: %.300q", rep.body[max(0, len(rep.body)-300):])
	}
	if first.IsZero() {
		return Answer{}, errors.New("a stream has no output")
	}
	a := Answer{First: first.Sub(begun), Whole: whole}
	return a, a.read(rep.body)
}

// Post sends one request over a connection of its own and returns the reply's body.
func Post(ctx context.Context, addr string, request []byte) ([]byte, error) {
	_, rep, err := exchange(ctx, addr, request, nil)
	return rep.body, err
}

// exchange returns the moment before the request was written, and the reply.
func exchange(ctx context.Context, addr string, request []byte, arrived func([]byte)) (begun time.Time, rep reply, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return begun, reply{}, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() }) // wakes a wait for the reply
	defer stop()
	begun = time.Now()
	if err := conn.SetDeadline(begun.Add(oneTimeout)); err != nil {
		return begun, reply{}, err
	}
	if _, err := conn.Write(request); err != nil {
		return begun, reply{}, fmt.Errorf("send a request: %w", err)
	}
	if rep, err = readReply(bufio.NewReaderSize(conn, readBuffer), nil, arrived); err != nil {
		return begun, reply{}, fmt.Errorf("read a reply: %w", err)
	}
	if rep.status != 200 {
		return begun, reply{}, fmt.Errorf("a reply has status %d: %.300q", rep.status, bytes.TrimSpace(rep.body))
	}
	return begun, rep, nil
}

// usage is what events say about tokens; later events replace what earlier ones said.
type usage struct {
	Input  *int `json:"input_tokens"`
	Cached *int `json:"cache_read_input_tokens"`
	Output *int `json:"output_tokens"`
}

// event is what of an event's data is read here.
type event struct {
	Delta struct {
		Text string `json:"text"`
	} `json:"delta"`
	Usage   usage `json:"usage"`
	Message struct {
		Usage usage `json:"usage"`
	} `json:"message"`
}

// read takes text and usage from the events of a stream.
func (a *Answer) read(body []byte) error {
	var text strings.Builder
	for line := range bytes.Lines(body) {
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		text.WriteString(e.Delta.Text)
		for _, u := range []usage{e.Message.Usage, e.Usage} {
			set(&a.Input, u.Input)
			set(&a.Cached, u.Cached)
			set(&a.Output, u.Output)
		}
	}
	a.Text = text.String()
	return nil
}

func set(to, from *int) {
	if from != nil {
		*to = *from
	}
}
