// A sender of QUIC by quic-go: the server sends zeros for as long as the client listens.
//
//	quic_go serve ADDRESS:PORT CERTIFICATE KEY
//	quic_go fetch ADDRESS:PORT SECONDS
//
// Used by ../senders.py.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/quic-go/quic-go"
)

// The receiver must not be the limit.
const window = 64 << 20

var config = &quic.Config{
	InitialStreamReceiveWindow:     window,
	MaxStreamReceiveWindow:         window,
	InitialConnectionReceiveWindow: window,
	MaxConnectionReceiveWindow:     window,
}

func serve(address, certificate, key string) error {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	security := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"zeros"}}
	listener, err := quic.ListenAddr(address, security, config)
	if err != nil {
		return err
	}
	for {
		connection, err := listener.Accept(context.Background())
		if err != nil {
			return err
		}
		go func() {
			stream, err := connection.AcceptStream(context.Background())
			zeros := make([]byte, 1<<16)
			for err == nil {
				_, err = stream.Write(zeros)
			}
		}()
	}
}

func fetch(address, seconds string) error {
	within, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		return err
	}
	security := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"zeros"}}
	connection, err := quic.DialAddr(context.Background(), address, security, config)
	if err != nil {
		return err
	}
	stream, err := connection.OpenStreamSync(context.Background())
	if err != nil {
		return err
	}
	if _, err = stream.Write([]byte("send")); err != nil {
		return err
	}
	go io.Copy(io.Discard, stream)
	time.Sleep(time.Duration(within * float64(time.Second)))
	return connection.CloseWithError(0, "")
}

func main() {
	var err error
	switch words := os.Args[1:]; {
	case len(words) == 4 && words[0] == "serve":
		err = serve(words[1], words[2], words[3])
	case len(words) == 3 && words[0] == "fetch":
		err = fetch(words[1], words[2])
	default:
		err = fmt.Errorf("usage: quic_go serve ADDRESS:PORT CERTIFICATE KEY | fetch ADDRESS:PORT SECONDS")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "quic_go:", err)
		os.Exit(1)
	}
}
