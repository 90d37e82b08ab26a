// The client program in Go; see ../README.md. It is built in GOPATH mode, for the gRPC library that Debian packages.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	baton "baton/v1"
	health "grpc/health/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	patience          = 20 * time.Second
	loops             = 16
	callsBetweenKills = 200
)

// ---- what a test needs ----

// failed is how check leaves a case.
type failed struct{ why string }

func check(holds bool, format string, args ...interface{}) {
	if !holds {
		panic(failed{fmt.Sprintf(format, args...)})
	}
}

func succeeds(err error) {
	check(err == nil, "%v", err)
}

var answers = bufio.NewScanner(os.Stdin)

// need has something done to the cluster.
func need(what string) map[string]string {
	say(map[string]string{"need": what})
	answer := map[string]string{}
	check(answers.Scan(), "nobody answers")
	succeeds(json.Unmarshal(answers.Bytes(), &answer))
	return answer
}

func say(line map[string]string) {
	text, err := json.Marshal(line)
	succeeds(err)
	fmt.Println(string(text))
}

func within(limit time.Duration) context.Context {
	ctx, _ := context.WithTimeout(context.Background(), limit) // ends with the call, or with its deadline
	return ctx
}

func soon() context.Context {
	return within(patience)
}

func expect(err error, code codes.Code, trailers metadata.MD, reason string) {
	check(status.Code(err) == code, "%v instead of %v", err, code)
	if reason != "" {
		check(first(trailers, "baton-reason") == reason, "%v instead of %s", trailers, reason)
		check(status.Convert(err).Message() != "", "%s without a message", reason)
	}
}

func first(md metadata.MD, key string) string {
	if values := md.Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	succeeds(err)
	return n
}

// raw sends bytes as they are, as a method that no contract has.
type raw struct{}

func (raw) Marshal(message interface{}) ([]byte, error)      { return message.([]byte), nil }
func (raw) Unmarshal(data []byte, message interface{}) error { return nil }
func (raw) Name() string                                     { return "proto" }

// ---- the client ----

type client struct {
	conn    *grpc.ClientConn
	kv      baton.KvServiceClient
	members baton.ClusterMemberServiceClient
	health  health.HealthClient
}

func dial(address string) *client {
	conn, err := grpc.Dial(address, grpc.WithInsecure(), grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(8<<20)))
	succeeds(err)
	return &client{conn, baton.NewKvServiceClient(conn), baton.NewClusterMemberServiceClient(conn),
		health.NewHealthClient(conn)}
}

func (c *client) put(ctx context.Context, key, value string, options ...grpc.CallOption) (*baton.PutResponse, error) {
	return c.kv.Put(ctx, &baton.PutRequest{Key: []byte(key), Value: []byte(value)}, options...)
}

func (c *client) mustPut(key, value string) *baton.PutResponse {
	answer, err := c.put(soon(), key, value)
	succeeds(err)
	return answer
}

func (c *client) mustGet(key string) *baton.GetResponse {
	answer, err := c.kv.Get(soon(), &baton.GetRequest{Key: []byte(key)})
	succeeds(err)
	return answer
}

func (c *client) mustRange(request *baton.RangeRequest) *baton.RangeResponse {
	answer, err := c.kv.Range(soon(), request)
	succeeds(err)
	return answer
}

func (c *client) count(prefix string) int {
	return int(c.mustRange(&baton.RangeRequest{Key: []byte(prefix), Prefix: true, CountOnly: true}).Count)
}

// swap writes after where before is; whether it was.
func (c *client) swap(key, before, after string) (bool, error) {
	answer, err := c.kv.Txn(soon(), &baton.TxnRequest{
		Compare: []*baton.Compare{{Key: []byte(key), Target: baton.Compare_TARGET_VALUE, Value: []byte(before)}},
		ThenOps: []*baton.Operation{{Op: &baton.Operation_Put{
			Put: &baton.PutRequest{Key: []byte(key), Value: []byte(after)}}}},
	})
	return answer.GetSucceeded(), err
}

func (c *client) watchLeader(ctx context.Context) baton.ClusterMemberService_WatchLeaderClient {
	stream, err := c.members.WatchLeader(ctx, &baton.WatchLeaderRequest{})
	succeeds(err)
	return stream
}

// ---- the cases ----

func (c *client) unary() {
	put := c.mustPut("unary/a", "1")
	got := c.mustGet("unary/a")
	check(got.Found && string(got.Kv.Value) == "1" && got.Kv.ModRevision == put.Revision, "%v", got)
	c.mustPut("unary/b", "2")
	listed := c.mustRange(&baton.RangeRequest{Key: []byte("unary/"), Prefix: true, Limit: 1})
	check(len(listed.Kvs) == 1 && string(listed.Kvs[0].Key) == "unary/a" && listed.More, "%v", listed)
	rest := c.mustRange(&baton.RangeRequest{Key: listed.NextKey, RangeEnd: []byte("unary0")})
	check(len(rest.Kvs) == 1 && string(rest.Kvs[0].Key) == "unary/b" && !rest.More, "%v", rest)
	swapped, err := c.swap("unary/a", "1", "3")
	check(swapped && err == nil, "no swap: %v", err)
	swapped, err = c.swap("unary/a", "1", "4")
	check(!swapped && err == nil, "a second swap: %v", err)
	gone, err := c.kv.Delete(soon(), &baton.DeleteRequest{Key: []byte("unary/"), Prefix: true, PrevKv: true})
	succeeds(err)
	check(len(gone.PrevKvs) == 2 && string(gone.PrevKvs[0].Value) == "3", "%v", gone)
	check(!c.mustGet("unary/a").Found, "found what was deleted")
}

func (c *client) metadata() {
	var all [256]byte
	for i := range all {
		all[i] = byte(i)
	}
	var initial metadata.MD
	ctx := metadata.AppendToOutgoingContext(soon(), "x-all-bin", string(all[:]), "x-all-bin", "", "x-twice", "a", "x-twice", "b")
	_, err := c.kv.Get(ctx, &baton.GetRequest{Key: []byte("none")}, grpc.Header(&initial))
	succeeds(err)
	check(number(first(initial, "baton-epoch")) > 0 && first(initial, "baton-cluster") != "", "%v", initial)
}

func (c *client) requestID() {
	var initial metadata.MD
	own := func() context.Context {
		return metadata.AppendToOutgoingContext(soon(), "baton-request-id", "go-interop-request")
	}
	once, err := c.put(own(), "id", "1")
	succeeds(err)
	c.mustPut("id", "2")
	again, err := c.put(own(), "id", "1", grpc.Header(&initial))
	succeeds(err)
	check(again.Revision == once.Revision, "another revision")
	check(first(initial, "baton-replayed") == "1", "%v", initial)
	check(string(c.mustGet("id").Kv.Value) == "2", "it happened twice")
}

func (c *client) serverStream() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream := c.watchLeader(ctx)
	one, err := stream.Recv()
	succeeds(err)
	two, err := stream.Recv()
	succeeds(err)
	check(one.Known && one.Epoch > 0 && one.Id == two.Id && one.Epoch == two.Epoch, "%v, %v", one, two)
}

func (c *client) errors() {
	var trailers metadata.MD
	_, err := c.put(soon(), "", "", grpc.Trailer(&trailers))
	expect(err, codes.InvalidArgument, trailers, "BAD_KEY")
	check(first(trailers, "baton-not-executed") == "1", "%v", trailers)
	_, err = c.kv.Delete(soon(), &baton.DeleteRequest{Key: []byte("none"), MustExist: true}, grpc.Trailer(&trailers))
	expect(err, codes.NotFound, trailers, "KEY_NOT_FOUND")
	short := metadata.AppendToOutgoingContext(soon(), "baton-request-id", "short")
	_, err = c.put(short, "k", "", grpc.Trailer(&trailers))
	expect(err, codes.InvalidArgument, trailers, "BAD_REQUEST_ID")
	err = c.conn.Invoke(soon(), "/baton.v1.KvService/Fly", []byte{}, nil, grpc.ForceCodec(raw{}), grpc.Trailer(&trailers))
	expect(err, codes.Unimplemented, trailers, "NO_METHOD")
	err = c.conn.Invoke(soon(), "/baton.v1.KvService/Get", []byte{0xff, 0xff}, nil, grpc.ForceCodec(raw{}),
		grpc.Trailer(&trailers))
	expect(err, codes.InvalidArgument, trailers, "BAD_REQUEST")
}

func (c *client) refusalOfAFollower() {
	known := need("follower")
	follower := dial(known["follower"])
	defer follower.conn.Close()
	var trailers metadata.MD
	_, err := follower.put(soon(), "k", "", grpc.Trailer(&trailers))
	expect(err, codes.Unavailable, trailers, "NOT_LEADER")
	check(first(trailers, "baton-leader") == known["leader"] && number(first(trailers, "baton-epoch")) > 0 &&
		first(trailers, "baton-not-executed") == "1", "%v", trailers)
}

func (c *client) largeValues() {
	value := make([]byte, 1<<20)
	_, err := rand.Read(value)
	succeeds(err)
	c.mustPut("large", string(value))
	check(bytes.Equal(c.mustGet("large").Kv.Value, value), "another value")
	var trailers metadata.MD
	_, err = c.put(soon(), "large", string(value)+"x", grpc.Trailer(&trailers))
	expect(err, codes.InvalidArgument, trailers, "TOO_LARGE")
}

func (c *client) manyCalls() {
	const many = 1000
	var all sync.WaitGroup
	errors := make(chan error, many)
	for i := 0; i < many; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			_, err := c.put(soon(), fmt.Sprintf("many/%d", i), "")
			errors <- err
		}(i)
	}
	all.Wait()
	for i := 0; i < many; i++ {
		succeeds(<-errors)
	}
	check(c.count("many/") == many, "some are missing")
}

func (c *client) deadlineOfACall() {
	need("pause")
	_, err := c.put(within(300*time.Millisecond), "late", "")
	need("resume")
	expect(err, codes.DeadlineExceeded, nil, "")
	c.mustPut("late", "")
}

func (c *client) deadlineOfAStream() {
	stream := c.watchLeader(within(1500 * time.Millisecond))
	expect(drain(stream), codes.DeadlineExceeded, nil, "")
	c.mustGet("none")
}

// drain gives the error with which a stream ends.
func drain(stream baton.ClusterMemberService_WatchLeaderClient) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

func (c *client) cancelledCall() {
	need("pause")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	ended := make(chan error)
	go func() {
		_, err := c.put(ctx, "cancelled", "")
		ended <- err
	}()
	cancel()
	err := <-ended
	need("resume")
	expect(err, codes.Canceled, nil, "")
	c.mustPut("cancelled", "")
}

func (c *client) cancelledStream() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	stream := c.watchLeader(ctx)
	_, err := stream.Recv()
	succeeds(err)
	cancel()
	expect(drain(stream), codes.Canceled, nil, "")
	c.mustGet("none")
}

func (c *client) healthService() {
	for _, service := range []string{"", "baton.v1.KvService", "baton.v1.ClusterMemberService"} {
		request := &health.HealthCheckRequest{Service: service}
		answer, err := c.health.Check(soon(), request)
		succeeds(err)
		check(answer.Status == health.HealthCheckResponse_SERVING, "%s: %v", service, answer)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		stream, err := c.health.Watch(ctx, request)
		succeeds(err)
		watched, err := stream.Recv()
		cancel()
		succeeds(err)
		check(watched.Status == health.HealthCheckResponse_SERVING, "watch of %s: %v", service, watched)
	}
	_, err := c.health.Check(soon(), &health.HealthCheckRequest{Service: "none"})
	expect(err, codes.NotFound, nil, "")
}

func (c *client) streamAcrossAKill() {
	stream := c.watchLeader(within(time.Minute))
	before, err := stream.Recv()
	succeeds(err)
	need("kill")
	expect(drain(stream), codes.Unavailable, nil, "")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stream = c.watchLeader(ctx)
	for {
		after, err := stream.Recv()
		succeeds(err)
		if after.Known {
			check(after.Epoch > before.Epoch && after.ClusterId == before.ClusterId, "%v", after)
			return
		}
	}
}

func (c *client) callsAcrossKills() {
	c.mustPut("counter", "0")
	l := startLoad(c)
	for i := 0; i < 2; i++ {
		l.waitCalls(callsBetweenKills)
		need("kill in calls")
		l.waitCalls(callsBetweenKills)
	}
	l.stop()
	check(len(l.errors) == 0, "%d errors of %d calls: %v", len(l.errors), l.calls, l.errors)
	check(c.count("load/") == l.puts, "Puts are missing")
	check(number(string(c.mustGet("counter").Kv.Value)) == l.swaps, "the counter is not %d", l.swaps)
}

// load is closed loops, each of a Put of a key of its own and of one step of a counter that all share.
type load struct {
	client   *client
	stopping int32
	running  sync.WaitGroup

	lock               sync.Mutex
	counted            *sync.Cond
	calls, puts, swaps int
	errors             []error
}

func startLoad(c *client) *load {
	l := &load{client: c}
	l.counted = sync.NewCond(&l.lock)
	l.running.Add(loops)
	for name := 0; name < loops; name++ {
		go l.run(name)
	}
	return l
}

func (l *load) run(name int) {
	defer l.running.Done()
	for i := 0; atomic.LoadInt32(&l.stopping) == 0; i++ {
		_, err := l.client.put(soon(), fmt.Sprintf("load/%d/%d", name, i), "")
		l.count(true, false, err)
		got, err := l.client.kv.Get(soon(), &baton.GetRequest{Key: []byte("counter")})
		l.count(false, false, err)
		if err == nil {
			before := string(got.Kv.Value)
			swapped, err := l.client.swap("counter", before, strconv.Itoa(number(before)+1))
			l.count(false, swapped, err)
		}
	}
}

func (l *load) count(put, swapped bool, err error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.calls++
	if err != nil {
		l.errors = append(l.errors, err)
	} else if put {
		l.puts++
	} else if swapped {
		l.swaps++
	}
	l.counted.Broadcast()
}

func (l *load) waitCalls(more int) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for wanted := l.calls + more; l.calls < wanted; {
		l.counted.Wait()
	}
}

func (l *load) stop() {
	atomic.StoreInt32(&l.stopping, 1)
	l.running.Wait()
}

// ---- running them ----

// run gives why a case failed; empty when it did not.
func run(body func()) (why string) {
	defer func() {
		switch left := recover().(type) {
		case nil:
		case failed:
			why = left.why
		default:
			panic(left)
		}
	}()
	body()
	return ""
}

func main() {
	c := dial(os.Args[1])
	cases := []struct {
		name string
		body func()
	}{
		{"unary", c.unary},
		{"metadata", c.metadata},
		{"request id", c.requestID},
		{"server stream", c.serverStream},
		{"errors", c.errors},
		{"refusal of a follower", c.refusalOfAFollower},
		{"large values", c.largeValues},
		{"many calls on one channel", c.manyCalls},
		{"deadline of a call", c.deadlineOfACall},
		{"deadline of a stream", c.deadlineOfAStream},
		{"cancelled call", c.cancelledCall},
		{"cancelled stream", c.cancelledStream},
		{"health", c.healthService},
		{"stream across a kill", c.streamAcrossAKill},
		{"calls across kills", c.callsAcrossKills},
	}
	for _, one := range cases {
		say(map[string]string{"case": one.name, "error": strings.TrimSpace(run(one.body))})
	}
	c.conn.Close()
}
