package client

import (
	"net"
	"strconv"
	"time"
)

// Conn is one connection. It is used by one goroutine at a time.
type Conn struct {
	Reader
	conn net.Conn
	out  []byte
}

// Send writes a request: lines made by Target.Head, more header lines, and the
// body. Reads and writes until the next Send end at the deadline.
func (c *Conn) Send(head []byte, headers string, body []byte, deadline time.Time) error {
	if err := c.conn.SetDeadline(deadline); err != nil {
		return err
	}
	c.done = false
	c.out = append(append(c.out[:0], head...), headers...)
	c.out = strconv.AppendInt(append(c.out, "Content-Length: "...), int64(len(body)), 10)
	c.out = append(append(c.out, "\r\n\r\n"...), body...)
	_, err := c.conn.Write(c.out)
	return err
}

// Answered says whether a byte of the reply is there, and waits for it.
func (c *Conn) Answered() error {
	_, err := c.in.Peek(1)
	return err
}

// reusable says that the connection can carry another exchange. Bytes that
// nobody asked for mean that it cannot.
func (c *Conn) reusable() bool { return c.done && !c.last && c.in.Buffered() == 0 }
