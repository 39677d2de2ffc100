"""The settings of the service and of its surroundings: callers, logins, messages, uploads, data."""

from jedi.core.knobs.knob import Component, knob, switch


class ApiKnobs(Component):
    listen = knob("", "host:port").means(
        "address of the service for pilots and users, from its next start on; beyond loopback it "
        "needs service.crt and service.key in the home; empty: only a unix socket"
    )
    page = knob("127.0.0.1:8765", "host:port").means(
        "loopback address of web pages alone, from the next start of the service on; another port "
        "if this one is taken; empty, or with api.listen: none"
    )
    session_h = knob(12.0, "h", least=0.1, most=24 * 366).means(
        "hours after which a browser has to log in again"
    )
    socket_group = knob("").means(
        "group whose members may use the unix socket, from the next start of the service on; they "
        "need the right to enter its directory, too"
    )
    peer_connections = knob(512, "connections", least=1).means(
        "most connections of one address, or of one process at the unix socket; a new one replaces "
        "the one that has kept the service waiting longest"
    )
    proxies = knob("", "addresses").means(
        "addresses or networks, separated by blanks, of proxies whose X-Forwarded-For names the "
        "caller; empty: none"
    )
    headers_s = knob(10.0, "s", least=0.1).means("time-out for the headers of a request")
    body_s = knob(60.0, "s", least=0.1).means("time-out for the body of a request")
    watch_poll_s = knob(0.5, "s", least=0.1).means(
        "shortest interval between looks for changes of watched tasks"
    )
    calls_per_s = knob(200.0, "calls/s", least=0).means(
        "most calls of one caller in the long run, in each service; pilots have no such limit; 0: "
        "no limit"
    )
    calls_burst = knob(1000, "calls", least=1).means("most calls of one caller at once")
    wrong_tokens_per_s = knob(10.0, "tokens/s", least=0).means(
        "most wrong tokens of one address in the long run, in each service; the unix socket has no "
        "such limit; 0: no limit"
    )
    wrong_tokens_burst = knob(300, "tokens", least=1).means(
        "most wrong tokens of one address at once"
    )
    statement_s = knob(25.0, "s", least=0).means(
        "most time of a statement of the service in the database; then the request is refused; 0: "
        "no limit"
    )
    heavy_calls = knob(6, "calls", least=1, most=8).means(
        "most heavy calls (docs/api.md) at work at once, in each service; others wait for 5 s and "
        "are then refused"
    )
    caller_heavy_calls = knob(3, "calls", least=1).means("most of them of one caller")
    caller_streams = knob(100, "streams", least=0).means(
        "most open streams of changes of one caller, in each service; 0: no limit"
    )
    registry_lease_s = knob(300.0, "s", least=1).means(
        "time without a request after which another session may take the lease of a registry of "
        "jobs"
    )
    metrics_open = knob("off", among=("off", "on")).means(
        "on: every caller may read /metrics; off: only callers on the same machine and known users"
    )
    access_log = knob("on", among=("off", "on")).means("on: the service logs each request")
    panda_url = knob("", "URL").means(
        "URL of the service for payloads under pilots of PanDA; empty: scheme and host by which "
        "their pilot asked"
    )


class OidcKnobs(Component):
    issuer = knob("", "URL").means("identity provider whose tokens the service takes; empty: none")
    audience = knob("").means("audience that its tokens must name; empty: the service takes none")
    client_id = knob("").means(
        "id at the provider of jedi-task, a public client with the device flow"
    )
    scopes = knob("openid profile offline_access", "words").means(
        "scopes that jedi-task login asks for"
    )
    user_claim = knob("preferred_username").means(
        "claim with the user's name; sub if a token lacks it"
    )
    user_prefix = knob("").means("beginning of the names of the provider's users")
    shared_accounts = switch(0).means(
        "1: the provider's name and the local account of the same name are one user; 0: the "
        "service refuses such a name"
    )
    groups_claim = knob("groups").means("claim with the user's groups")
    roles = knob("", "group=role ...").means(
        "roles of the provider's groups, which decide at each request; empty: operators give roles"
    )


class NotifyKnobs(Component):
    retry_s = knob(60.0, "s", least=1.0).means(
        "wait before the second delivery of a message; the wait doubles each time"
    )
    longest_retry_s = knob(600.0, "s", least=1.0).means("longest wait between deliveries")
    timeout_s = knob(10.0, "s", least=0.1).means(
        "time-out of a receiver; of a mail relay, for each answer"
    )
    smtp_host = knob("", "host").means("mail relay; empty: none")
    smtp_port = knob(25, "port", least=1, most=65_535).means("port of the mail relay")
    smtp_tls = knob("none", among=("none", "starttls", "tls")).means(
        "encryption to the mail relay: none, starttls (port 587), tls from the first byte (port "
        "465)"
    )
    smtp_user = knob("", "name").means("user at the mail relay, only with TLS; empty: no login")
    smtp_password_file = knob("", "path").means("file with that user's password")
    mail_from = knob("jedi@localhost", "address").means("sender of mail")


class SandboxKnobs(Component):
    max_mb = knob(100, "MB", least=1).means("largest input sandbox")


class PrunKnobs(Component):
    vo = knob("").means("vo of the tasks of PanDA's clients; empty: the one that they name")
    cache_mb = knob(2000, "MB", least=0).means(
        "largest sum of a user's uploads in the file cache of PanDA's clients"
    )


class UploadKnobs(Component):
    max_gb = knob(20.0, "GB", least=0.0).means("largest file that people upload into a dataset")
    keep_days = knob(2.0, "d", least=0.0).means(
        "life of uploads that nobody has added to a dataset, from the last change of the user's "
        "uploads to it"
    )
    open_gb = knob(500.0, "GB", least=0.0).means(
        "largest sum of a user's open uploads at an endpoint, as announced"
    )
    open_files = knob(100_000, "files", least=0).means("most open uploads of a user at an endpoint")


class DdmKnobs(Component):
    catalogue = knob("filesystem", "name", among=("filesystem", "sql")).means(
        "catalogue of data management: filesystem (datasets are the files in the directories) or "
        "sql (in the database)"
    )
    event_count_command = knob("", "command").means(
        "command that prints the number of events of the file whose path is appended; empty: event "
        "counts come from side files only"
    )
