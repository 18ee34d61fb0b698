"""Who takes part in a round, and when it is complete. Pure: time is passed in.

A round collects `steps_per_env` steps from every environment of its members with one set of weights.
Members that don't deliver in time are left out; the round then closes with the rest.
"""

from dataclasses import dataclass, field

_PATIENCE_S = 2.0
_NAMES_SHOWN = 3


@dataclass
class Member:
    """One client's part of the present round.

    Attributes:
        quota: Steps it has to deliver.
        delivered: Steps it has delivered, accepted or refused.
    """

    quota: int
    delivered: int = 0

    @property
    def complete(self) -> bool:
        """Whether it has delivered its share."""
        return self.delivered >= self.quota


@dataclass
class Round:
    """One round of collecting.

    Attributes:
        round_id: Its id: the id of the weights it is played with.
        steps_per_env: Steps from each environment.
        timeout_s: Seconds of collecting after which those who have not delivered are left out.
        members: By client.
        left_out: Clients that were members and did not deliver, with the reason.
        elapsed_s: Seconds of collecting so far; it stands still while the server is away.
        waiting_s: Seconds of those in which some members had delivered and waited for the others.
    """

    round_id: int
    steps_per_env: int
    timeout_s: float
    members: dict[str, Member] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    elapsed_s: float = 0.0
    waiting_s: float = 0.0

    @classmethod
    def begin(cls, round_id: int, steps_per_env: int, timeout_s: float, num_envs: dict[str, int]) -> "Round":
        """Begin a round.

        Args:
            round_id: Id of the weights.
            steps_per_env: Steps from each environment.
            timeout_s: Longest time of collecting.
            num_envs: Environments of each member.
        """
        members = {client: Member(steps_per_env * count) for client, count in num_envs.items()}
        return cls(round_id, steps_per_env, timeout_s, members)

    def deliver(self, client: str, steps: int) -> None:
        """Count steps that arrived for this round, accepted or refused."""
        member = self.members.get(client)
        if member is not None:
            member.delivered += steps

    def leave(self, client: str, reason: str) -> None:
        """Take a member out that won't deliver the rest; what it delivered counts."""
        member = self.members.get(client)
        if member is not None and not member.complete:
            del self.members[client]
            self.left_out[client] = reason

    def pass_time(self, seconds: float) -> list[str]:
        """Let collecting time pass; return the members that were left out for being late."""
        self.elapsed_s += seconds
        if any(member.complete for member in self.members.values()):
            self.waiting_s += seconds
        if self.elapsed_s < self.timeout_s:
            return []
        late = [client for client, member in self.members.items() if not member.complete]
        for client in late:
            self.leave(client, f"did not deliver within {self.timeout_s:g} s")
        return late

    @property
    def complete(self) -> bool:
        """Whether every member that is left has delivered."""
        return all(member.complete for member in self.members.values())

    @property
    def waits_for(self) -> str:
        """Who holds the others up, in words; empty while nobody does, or not for long yet."""
        late = [client for client, member in self.members.items() if not member.complete]
        if not late or self.waiting_s <= _PATIENCE_S:
            return ""
        more = f" and {len(late) - _NAMES_SHOWN} more" if len(late) > _NAMES_SHOWN else ""
        return f"waiting for {', '.join(sorted(late)[:_NAMES_SHOWN])}{more}"
