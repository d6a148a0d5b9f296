//! Protocol headers (section 2.2) and the SASL layer (section 5.3): who may speak what, before the connection opens.
//!
//! The mechanisms themselves are the driver's: it hears `SaslInit` and `SaslResponse` and answers; input rests until
//! it did.

use super::connection::{Engine, Phase};
use super::fault::{self, Violation};
use super::*;
use crate::limits::SASL_STEPS_MAX;
use crate::outcome::Fault;
use crate::wire::sasl::{self, SaslFrame};
use crate::wire::{frame, Symbols, PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL};

impl Engine {
    /// Reads a protocol header, where one has come. Gives whether there is more to do now.
    pub(super) fn read_protocol_header(&mut self) -> bool {
        let mut header = [0; 8];
        let here = self.input.peek(&mut header);
        if here < header.len() {
            let expected: &[u8] = &PROTOCOL_HEADER_AMQP[..here.min(4)];
            if header[..here.min(4)] != *expected {
                match self.is_initiator {
                    true => self.break_off(Fault::connection(fault::FRAMING_ERROR, "the peer doesn't speak AMQP")),
                    false => self.refuse_protocol(),
                }
            }
            return false;
        }
        self.input.consume(header.len());
        if self.is_initiator {
            return self.on_header_answered(header);
        }
        let before_sasl = self.phase == Phase::Header;
        match header {
            PROTOCOL_HEADER_AMQP if !before_sasl || !self.settings.sasl_required => {
                self.write_bytes(&PROTOCOL_HEADER_AMQP);
                self.phase = Phase::Opening;
            }
            PROTOCOL_HEADER_SASL if before_sasl && !self.settings.sasl_mechanisms.is_empty() => {
                self.write_bytes(&PROTOCOL_HEADER_SASL);
                let settings = self.settings.clone();
                let names: Vec<&str> = settings.sasl_mechanisms.iter().map(String::as_str).collect();
                let mechanisms = sasl::Mechanisms { sasl_server_mechanisms: Symbols::names(&names) };
                self.write_sasl(&SaslFrame::Mechanisms(mechanisms));
                self.phase = Phase::SaslInit;
            }
            _ => {
                self.refuse_protocol();
                return false;
            }
        }
        true
    }

    /// Another protocol, or a layer that isn't served: our header says what is, then the connection is over.
    fn refuse_protocol(&mut self) {
        let ours = match self.settings.sasl_required && self.phase == Phase::Header {
            true => PROTOCOL_HEADER_SASL,
            false => PROTOCOL_HEADER_AMQP,
        };
        self.write_bytes(&ours);
        self.break_off(Fault::connection(fault::FRAMING_ERROR, "not a protocol header that is served"));
    }

    pub(super) fn on_sasl_frame(
        &mut self,
        header: &frame::FrameHeader,
        body: &[u8],
    ) -> Result<Option<Event>, Violation> {
        if header.frame_type != frame::TYPE_SASL {
            return Err(Violation::connection(fault::FRAMING_ERROR, "not a SASL frame"));
        }
        match (SaslFrame::decode(body)?, self.phase) {
            (SaslFrame::Init(init), Phase::SaslInit) => {
                if !self.settings.sasl_mechanisms.iter().any(|mechanism| mechanism == init.mechanism) {
                    self.sasl_fail(Fault::connection(fault::NOT_ALLOWED, "a mechanism that wasn't offered"));
                    return Ok(None);
                }
                self.phase = Phase::SaslRest;
                Ok(Some(Event::SaslInit(Box::new(SaslInit {
                    mechanism: init.mechanism.to_owned(),
                    initial_response: init.initial_response.map(<[u8]>::to_vec),
                    hostname: init.hostname.map(str::to_owned),
                }))))
            }
            (SaslFrame::Response(response), Phase::SaslResponse) => {
                self.sasl_steps += 1;
                if self.sasl_steps > SASL_STEPS_MAX {
                    self.sasl_fail(Fault::connection(
                        fault::RESOURCE_LIMIT_EXCEEDED,
                        "the exchange has too many steps",
                    ));
                    return Ok(None);
                }
                self.phase = Phase::SaslRest;
                Ok(Some(Event::SaslResponse(response.response.to_vec())))
            }
            (SaslFrame::Mechanisms(mechanisms), Phase::SaslMechanisms) => {
                self.phase = Phase::SaslRest;
                let names = mechanisms.sasl_server_mechanisms.iter().map(str::to_owned).collect();
                Ok(Some(Event::SaslMechanisms(names)))
            }
            (SaslFrame::Challenge(challenge), Phase::SaslOutcome) => {
                self.phase = Phase::SaslRest;
                Ok(Some(Event::SaslChallenge(challenge.challenge.to_vec())))
            }
            (SaslFrame::Outcome(outcome), Phase::SaslOutcome) => {
                self.on_sasl_outcome(outcome.code);
                Ok(None)
            }
            _ => Err(Violation::connection(fault::NOT_ALLOWED, "a SASL frame out of turn")),
        }
    }

    /// The exchange failed: outcome `auth`, then the connection is over.
    pub(super) fn sasl_fail(&mut self, fault: Fault) {
        self.write_sasl(&SaslFrame::Outcome(sasl::Outcome { code: sasl::CODE_AUTH, additional_data: None }));
        self.break_off(fault);
    }

    pub(super) fn write_sasl(&mut self, sasl: &SaslFrame<'_>) {
        let start = frame::begin(&mut self.output.bytes, frame::TYPE_SASL, 0);
        sasl.encode(&mut self.output.bytes);
        frame::finish(&mut self.output.bytes, start);
        self.trace_output(start);
    }
}

/// Commands.
impl Engine {
    /// Asks the peer on; `SaslResponse` follows.
    pub fn sasl_challenge(&mut self, challenge: &[u8]) {
        if self.phase == Phase::SaslRest && !self.is_initiator {
            self.write_sasl(&SaslFrame::Challenge(sasl::Challenge { challenge }));
            self.phase = Phase::SaslResponse;
        }
    }

    /// Ends the SASL exchange, as the server: code 0 (ok) or 1 (auth), after which the connection is over.
    pub fn sasl_outcome(&mut self, ok: bool) {
        if self.phase != Phase::SaslRest || self.is_initiator {
            return;
        }
        if !ok {
            return self.sasl_fail(Fault::connection("amqp:unauthorized-access", "authentication failed"));
        }
        self.write_sasl(&SaslFrame::Outcome(sasl::Outcome { code: sasl::CODE_OK, additional_data: None }));
        self.phase = Phase::HeaderAfterSasl;
    }
}
