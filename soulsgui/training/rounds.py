"""Who takes part in a round, and when it is complete. Pure: time is passed in.

A round collects a quota of steps from each of its members with one set of weights. What becomes of it when
a member is lost is a matter of policy (`ppo.lost_member`): the round closes with the rest, waits, lets the
others make the missing steps, or the run stops.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from soulsgui.training.quotas import Sharer, equal_quotas, share_out

Policy = Literal["shrink", "wait", "redistribute", "stop"]

LEFT, OFF_THE_LIST, NEW_SESSION = "left", "was taken off the list", "began a new session"

BY_A_PERSON: frozenset[str] = frozenset({LEFT, OFF_THE_LIST, "finishing", "stopping"})
"""Why a client is gone when somebody sent it away: nobody waits for it then."""

_PATIENCE_S = 2.0
_NAMES_SHOWN = 3


@dataclass
class Member:
    """One client's part of the present round.

    Attributes:
        quota: Steps it has to deliver.
        unit: Environments it steps side by side.
        delivered: Steps it has delivered, accepted or refused.
        before: Those of them that it delivered in an earlier session.
        speed: Steps per second up to the moment at which it had delivered its quota; None before.
    """

    quota: int
    unit: int = 1
    delivered: int = 0
    before: int = 0
    speed: float | None = None

    @property
    def complete(self) -> bool:
        """Whether it has delivered its share."""
        return self.delivered >= self.quota

    @property
    def missing(self) -> int:
        """Steps it still has to deliver."""
        return max(self.quota - self.delivered, 0)

    @property
    def share(self) -> int:
        """Steps it has to deliver in its present session, with those that it has delivered in it."""
        return self.quota - self.before


@dataclass
class Round:
    """One round of collecting.

    Attributes:
        round_id: Its id: the id of the weights it is played with.
        timeout_s: Seconds of collecting after which those who have not delivered are lost.
        policy: What becomes of the round when a member is lost.
        members: By client.
        left_out: Clients that were members and did not deliver, with the reason.
        absent: Members that were lost and are waited for, with the reason.
        stopped: Why the run is to stop, in words; empty while it is not.
        elapsed_s: Seconds of collecting so far; it stands still while the server is away.
        waiting_s: Seconds of those in which some members had delivered and waited for the others.
    """

    round_id: int
    timeout_s: float
    policy: Policy = "shrink"
    members: dict[str, Member] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    stopped: str = ""
    elapsed_s: float = 0.0
    waiting_s: float = 0.0
    _deadline_s: float = 0.0

    @classmethod
    def begin(
        cls,
        round_id: int,
        steps_per_env: int,
        timeout_s: float,
        num_envs: Mapping[str, int],
        policy: Policy = "shrink",
        quotas: Mapping[str, int] | None = None,
    ) -> "Round":
        """Begin a round.

        Args:
            round_id: Id of the weights.
            steps_per_env: Steps from each environment.
            timeout_s: Longest time of collecting.
            num_envs: Environments of each member.
            policy: What becomes of the round when a member is lost.
            quotas: Steps of each member where they are not equal.
        """
        quotas = equal_quotas(steps_per_env, num_envs) if quotas is None else quotas
        members = {client: Member(quotas[client], count) for client, count in num_envs.items()}
        return cls(round_id, timeout_s, policy, members, _deadline_s=timeout_s)

    def deliver(self, client: str, steps: int) -> None:
        """Count steps that arrived for this round, accepted or refused."""
        member = self.members.get(client)
        if member is not None:
            member.delivered += steps
            if member.complete:
                self.absent.pop(client, None)

    def lose(self, reasons: Mapping[str, str], speeds: Mapping[str, float] | None = None) -> list[str]:
        """Treat members that won't deliver the rest, by the policy; what they delivered counts.

        Args:
            reasons: Why, by client; those who have delivered all, or are no members, don't matter.
            speeds: Steps per second of those who could make the missing steps.

        Returns:
            The members whose quota has grown.
        """
        lost = {client: self.members[client] for client in reasons if client in self.members}
        lost = {client: member for client, member in lost.items() if not member.complete}
        for client in list(lost):
            if self.policy == "wait" and reasons[client] not in BY_A_PERSON:
                self.absent[client] = reasons[client]
                del lost[client]
        for client in lost:
            del self.members[client]
            self.absent.pop(client, None)
            self.left_out[client] = reasons[client]
        if lost and self.policy == "stop":
            self.stopped = f"The round lost {named({client: reasons[client] for client in lost})}"
        if self.policy == "redistribute":
            return self._give_to_others(sum(member.missing for member in lost.values()), speeds or {})
        return []

    def _give_to_others(self, steps: int, speeds: Mapping[str, float]) -> list[str]:
        sharers = {
            client: Sharer(speeds[client], member.missing, member.unit)
            for client, member in self.members.items()
            if client in speeds
        }
        if not steps or not sharers:
            return []
        grown = {client: more for client, more in share_out(steps, sharers).items() if more}
        for client, more in grown.items():
            self.members[client].quota += more
        self._deadline_s = self.elapsed_s + self.timeout_s
        return sorted(grown)

    def returned(self, client: str) -> None:
        """Take note that a member that was waited for is there again; it may be late all the same."""
        if self.elapsed_s < self._deadline_s:
            self.absent.pop(client, None)
        elif client in self.absent:
            self.absent[client] = self._too_late

    def begin_session(self, client: str, num_envs: int) -> Member | None:
        """Let a member go on in a new session; return it, or None when the round does not wait for it.

        Args:
            client: The client.
            num_envs: Environments it steps now.
        """
        member = self.members.get(client)
        if member is None or self.policy != "wait" or member.complete:
            return None
        member.before, member.unit = member.delivered, num_envs
        self.absent.pop(client, None)
        return member

    def pass_time(self, seconds: float) -> dict[str, str]:
        """Let collecting time pass; return the members that are late now, with the reason, for `lose`."""
        self.elapsed_s += seconds
        complete = [member for member in self.members.values() if member.complete]
        for member in complete:
            if member.speed is None and self.elapsed_s > 0:
                member.speed = member.delivered / self.elapsed_s
        if complete:
            self.waiting_s += seconds
        if self.elapsed_s < self._deadline_s:
            return {}
        late = [client for client, member in self.members.items() if not member.complete]
        return {client: self._too_late for client in late if client not in self.absent}

    @property
    def _too_late(self) -> str:
        return f"did not deliver within {self.timeout_s:g} s"

    @property
    def complete(self) -> bool:
        """Whether every member that is left has delivered."""
        return all(member.complete for member in self.members.values())

    @property
    def at_rest(self) -> bool:
        """Whether nobody makes anything for it: all have delivered but those who are waited for."""
        others = (member for client, member in self.members.items() if client not in self.absent)
        return bool(self.absent) and all(member.complete for member in others)

    @property
    def waits_for(self) -> str:
        """Who holds the others up, in words; empty while nobody does, or not for long yet."""
        if self.absent:
            return f"waiting for {named(self.absent)}"
        late = [client for client, member in self.members.items() if not member.complete]
        if not late or self.waiting_s <= _PATIENCE_S:
            return ""
        return f"waiting for {named(late)}"


def named(clients: Mapping[str, str] | Collection[str]) -> str:
    """Return clients in words, such as `b (paused), c and 2 more`.

    Args:
        clients: Their names; a mapping tells a reason of each.
    """
    reasons = clients if isinstance(clients, Mapping) else {}
    names = sorted(clients)
    words = [f"{name} ({reasons[name]})" if name in reasons else name for name in names[:_NAMES_SHOWN]]
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"{', '.join(words)}{more}"
